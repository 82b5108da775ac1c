import { createAgent } from 'langchain';
import { ScriptedModel } from './scripted-model.ts';
import { convertCurrency, lookUpOrder, sendMail } from './tools.ts';

/**
 * An agent as LangChain's own pages show it; it knows nothing of perdure. PERDURE_AGENT_MODEL names a model that
 * LangChain's `initChatModel` knows, such as `openai:gpt-4o-mini`; without it the scripted one answers.
 */
export const agent = createAgent({
  model: process.env['PERDURE_AGENT_MODEL'] || new ScriptedModel(),
  tools: [lookUpOrder, convertCurrency, sendMail],
  systemPrompt: 'You help the customers of a small shop. Answer briefly, from what the tools tell you.',
});
