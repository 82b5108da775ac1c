import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import type { Behaviour } from '../../graphs/refund-flow/payments/behaviour.ts';
import { type Payments, startPayments } from '../../graphs/refund-flow/payments/process.ts';
import type { RefundKind } from '../../graphs/refund-flow/settings.ts';
import type { Ticket } from '../../graphs/refund-flow/ticket.ts';
import { makeRunFolder } from '../dev/run-folders.ts';
import { ticketNamed } from '../graphs/tickets.ts';

/** What the payment service holds of one ticket. */
export type TicketBooks = { refunds: Record<string, unknown>[]; messages: Record<string, unknown>[] };

/** A payment service of the test file's own, with tickets that need an approval. */
export type RefundOffice = {
  payments: Payments;
  /** A langgraph.json with refund-flow alone. */
  project: string;
  /** Where files of the test may be made. */
  folder: string;
  /** A ticket about an order of its own. */
  newTicket(): Promise<Ticket>;
  books(ticket: Ticket): Promise<TicketBooks>;
  close(): Promise<void>;
};

export async function openRefundOffice(databaseUrl: string, behaviour: Behaviour): Promise<RefundOffice> {
  const schema = `payments_${randomUUID().slice(0, 8)}`;
  const payments = await startPayments({ databaseUrl, schema, behaviour });
  const folder = makeRunFolder(Number(process.env['PERDURE_TEST_RUN'] ?? process.pid));
  const project = join(folder, 'langgraph.json');
  const graph = fileURLToPath(new URL('../../graphs/refund-flow/graph.ts', import.meta.url));
  writeFileSync(project, JSON.stringify({ graphs: { 'refund-flow': `${graph}:refundFlow` } }));
  return {
    payments,
    project,
    folder,
    async newTicket() {
      const order_id = `order-${randomUUID().slice(0, 8)}`;
      const base = ticketNamed('ticket-401');
      await payments.addOrder({
        id: order_id,
        customer_email: base.customer.email,
        items: [{ name: 'Mug', category: 'kitchen' }],
        paid: 500,
        currency: 'EUR',
        delivered_at: '2026-07-10T11:00:00.000Z',
        refunded_before: 0,
      });
      return { ...base, id: `ticket-${order_id}`, order_id, amount: 120 };
    },
    async books(ticket) {
      const { refunds, messages } = await payments.books();
      return {
        refunds: refunds.filter((refund) => refund.order_id === ticket.order_id).map(plain),
        messages: messages.filter((message) => message.ticket_id === ticket.id).map(plain),
      };
    },
    async close() {
      await payments.stop();
      const client = new pg.Client({ connectionString: databaseUrl });
      await client.connect();
      try {
        await client.query(`DROP SCHEMA IF EXISTS ${pg.escapeIdentifier(schema)} CASCADE`);
      } finally {
        await client.end();
      }
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Without what differs from run to run. */
function plain({ created_at: _at, ...rest }: Record<string, unknown>): Record<string, unknown> {
  delete rest['sequence'];
  if (String(rest['id']).startsWith('msg')) delete rest['id'];
  return rest;
}

/** The config of a run whose refund is of this kind. */
export const ofKind = (kind: RefundKind) => ({ configurable: { refund_kind: kind } });
