import { condition } from '@temporalio/workflow';

export async function thread(): Promise<void> {
  await condition(() => false, '1 second');
}
