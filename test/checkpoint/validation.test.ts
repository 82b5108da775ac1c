import { deltaChannelHistoryTests, validate } from '@langchain/langgraph-checkpoint-validation';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { PerdureSaver } from '../../src/checkpoint/saver.ts';
import type { Database } from '../../src/postgres/database.ts';
import { closeDatabase, freshDatabase } from './fixture.ts';

// The suite expects a runner with globals.
Object.assign(globalThis, { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it });

const databases = new WeakMap<PerdureSaver, Database>();

async function close(saver: PerdureSaver): Promise<void> {
  const database = databases.get(saver);
  if (database) await closeDatabase(database);
}

describe.each([true, false])('with the tables of the runtime: %s', (migrated) => {
  const initializer = {
    checkpointerName: 'PerdureSaver',
    createCheckpointer: async () => {
      const database = await freshDatabase({ migrated });
      const saver = new PerdureSaver(database);
      await saver.setup();
      databases.set(saver, database);
      return saver;
    },
    destroyCheckpointer: close,
  };
  validate(initializer);
  deltaChannelHistoryTests(initializer);
});
