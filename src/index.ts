export { defineGraph, type DefineGraphOptions, type GraphDefinition } from './graph/define-graph.ts';
