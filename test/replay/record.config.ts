import { defineConfig, mergeConfig } from 'vitest/config';
import config from '../../vitest.config.ts';

// What `npm run record-histories` runs; the test run replays what it has written.
const recorder = mergeConfig(config, defineConfig({}));
recorder.test.include = ['test/replay/record-histories.ts'];
export default recorder;
