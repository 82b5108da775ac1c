import { z } from 'zod';
import { InvalidInputError } from './errors.ts';
import { jsonObject, type JsonValue } from './json.ts';

/** What LangChain's `humanInTheLoopMiddleware` asks: about each tool call that needs a person. */
const reviewRequest = z.looseObject({
  actionRequests: z.array(z.looseObject({ name: z.string(), args: jsonObject })).min(1),
  reviewConfigs: z.array(z.looseObject({ actionName: z.string(), allowedDecisions: z.array(z.string()) })),
});
type ReviewRequest = z.infer<typeof reviewRequest>;

/** What the inbox of LangGraph's platform takes: one request, or a list of one. */
const inboxRequest = z.looseObject({
  action_request: z.looseObject({ action: z.string(), args: jsonObject }),
  config: z.looseObject({
    allow_accept: z.boolean().optional(),
    allow_edit: z.boolean().optional(),
    allow_respond: z.boolean().optional(),
    allow_ignore: z.boolean().optional(),
  }),
});
type InboxRequest = z.infer<typeof inboxRequest>;

type Question =
  | { kind: 'review'; request: ReviewRequest }
  | { kind: 'inbox'; requests: InboxRequest[]; listed: boolean }
  | { kind: 'other' };

function questionOf(value: JsonValue): Question {
  const review = reviewRequest.safeParse(value);
  if (review.success) return { kind: 'review', request: review.data };
  const listed = Array.isArray(value);
  const inbox = z
    .array(inboxRequest)
    .min(1)
    .safeParse(listed ? value : [value]);
  return inbox.success ? { kind: 'inbox', requests: inbox.data, listed } : { kind: 'other' };
}

/** What a person decides, whatever shape the question wants the answer in. */
export type Decision =
  | { type: 'approve' }
  | { type: 'reject'; reason?: string | undefined }
  /** The arguments that are to run; for several actions a list, with null for each that runs as it is. */
  | { type: 'edit'; args: JsonValue };

/**
 * The answer that says the decision in the shape that the question expects: LangChain's `{decisions: […]}`, the
 * platform's `[{type: 'accept'}]`, else `true` or `false`.
 * @throws InvalidInputError when the question does not take such a decision.
 */
export function responseTo(question: JsonValue, decision: Decision): JsonValue {
  const shape = questionOf(question);
  switch (shape.kind) {
    case 'review':
      return { decisions: reviewDecisions(shape.request, decision) };
    case 'inbox': {
      const responses = shape.requests.map((request, index) =>
        inboxResponse(
          request,
          decision.type === 'edit'
            ? { type: 'edit', args: editsOf(decision.args, shape.requests.length)[index] ?? null }
            : decision,
        ),
      );
      return shape.listed ? responses : (responses[0] ?? null);
    }
    default:
      if (decision.type === 'approve') return true;
      if (decision.type === 'reject' && decision.reason === undefined) return false;
      throw new InvalidInputError(
        `This question takes ${decision.type === 'edit' ? 'no edited arguments' : 'no reason'} that perdure knows of. Give the whole answer with --value JSON.`,
      );
  }
}

function editsOf(args: JsonValue, count: number): JsonValue[] {
  const edits = Array.isArray(args) ? args : [args];
  if (edits.length === count) return edits;
  throw new InvalidInputError(
    `${count} actions are asked about: give a list of ${count}, with null for each that runs as it is.`,
  );
}

function reviewDecisions({ actionRequests }: ReviewRequest, decision: Decision): JsonValue[] {
  if (decision.type === 'approve') return actionRequests.map(() => ({ type: 'approve' }));
  if (decision.type === 'reject')
    return actionRequests.map(() => ({
      type: 'reject',
      ...(decision.reason === undefined ? {} : { message: decision.reason }),
    }));
  return editsOf(decision.args, actionRequests.length).map((args, index) =>
    args === null
      ? { type: 'approve' }
      : { type: 'edit', editedAction: { name: actionRequests[index]?.name ?? '', args } },
  );
}

function inboxResponse({ action_request, config }: InboxRequest, decision: Decision): JsonValue {
  if (decision.type === 'approve' || (decision.type === 'edit' && decision.args === null))
    return { type: 'accept', args: null };
  if (decision.type === 'edit')
    return { type: 'edit', args: { action: action_request.action, args: decision.args } };
  if (config.allow_respond === true && decision.reason !== undefined)
    return { type: 'response', args: decision.reason };
  return { type: 'ignore', args: null };
}

/**
 * Why an answer can't be one to the question, with what is expected; undefined when it can, or when nothing is known
 * of what the question takes.
 */
export function wrongAnswer(question: JsonValue, answer: JsonValue): string | undefined {
  const shape = questionOf(question);
  if (shape.kind === 'review') return wrongDecisions(shape.request, answer);
  if (shape.kind === 'inbox') return wrongResponses(shape.requests, answer);
  return undefined;
}

const decision = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('approve') }),
  z.looseObject({
    type: z.literal('edit'),
    editedAction: z.looseObject({ name: z.string(), args: jsonObject }),
  }),
  z.looseObject({ type: z.literal('reject'), message: z.string().optional() }),
  z.looseObject({ type: z.literal('respond'), message: z.string() }),
]);

function wrongDecisions(
  { actionRequests, reviewConfigs }: ReviewRequest,
  answer: JsonValue,
): string | undefined {
  const names = actionRequests.map(({ name }) => name);
  const expected = `{"decisions": [...]} with one decision for each of ${names.join(', ')}: {"type":"approve"}, {"type":"edit","editedAction":{"name":…,"args":{…}}} or {"type":"reject","message":"why"}`;
  const parsed = z.looseObject({ decisions: z.array(decision) }).safeParse(answer);
  if (!parsed.success) return `it expects ${expected}`;
  const { decisions } = parsed.data;
  if (decisions.length !== names.length)
    return `it asks about ${names.length} tool calls and ${decisions.length} were decided; it expects ${expected}`;
  for (const [index, { type }] of decisions.entries()) {
    const name = names[index];
    // As the middleware pairs them.
    const allowed = reviewConfigs.find(({ actionName }) => actionName === name)?.allowedDecisions;
    if (allowed !== undefined && !allowed.includes(type))
      return `'${type}' is not allowed for ${name}; allowed: ${allowed.join(', ')}`;
  }
  return undefined;
}

const inboxAnswer = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('accept') }),
  z.looseObject({ type: z.literal('ignore') }),
  z.looseObject({ type: z.literal('response'), args: z.string() }),
  z.looseObject({ type: z.literal('edit'), args: z.looseObject({ action: z.string(), args: jsonObject }) }),
]);

const ALLOWED_BY = {
  accept: 'allow_accept',
  edit: 'allow_edit',
  response: 'allow_respond',
  ignore: 'allow_ignore',
} as const;

function wrongResponses(requests: InboxRequest[], answer: JsonValue): string | undefined {
  const parsed = z.array(inboxAnswer).safeParse(Array.isArray(answer) ? answer : [answer]);
  if (!parsed.success || parsed.data.length !== requests.length)
    return `it expects a list of ${requests.length}: {"type":"accept"}, {"type":"edit","args":{"action":…,"args":{…}}}, {"type":"response","args":"text"} or {"type":"ignore"}`;
  for (const [index, { type }] of parsed.data.entries())
    if (requests[index]?.config[ALLOWED_BY[type]] === false)
      return `'${type}' is not allowed for ${requests[index].action_request.action}`;
  return undefined;
}
