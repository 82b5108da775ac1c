import pg from 'pg';
import {
  type Message,
  type MessageRequest,
  type Order,
  type OrderView,
  type Refund,
  type RefundRequest,
  type Books,
  message,
  orderView,
  refund,
} from './contracts.ts';

/** How a request to write ended. `replayed`: the key was known, and this is the first answer again. */
export type Written<T> =
  | { outcome: 'created' | 'replayed'; row: T }
  | { outcome: 'unknown_order' | 'already_refunded' | 'key_reused' };

export type WriteOptions = { key: string | null; honourKey: boolean; onePerOrder?: boolean };

/** The service's own tables. It knows nothing of perdure's. */
export type Ledger = {
  findOrder(id: string): Promise<OrderView | null>;
  addOrders(orders: Order[]): Promise<void>;
  addRefund(request: RefundRequest, options: WriteOptions): Promise<Written<Refund>>;
  findRefunds(orderId: string | null, key: string | null): Promise<Refund[]>;
  addMessage(request: MessageRequest, options: WriteOptions): Promise<Written<Message>>;
  books(): Promise<Omit<Books, 'requests'>>;
  close(): Promise<void>;
};

/** Connects, and makes the tables where they are missing. Several processes may do so at once. */
export async function openLedger(databaseUrl: string, schemaName: string): Promise<Ledger> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 4, application_name: 'payments' });
  // A connection that the server closes while idle is replaced by the next query.
  pool.on('error', () => {});
  const sql = statements(pg.escapeIdentifier(schemaName));

  async function transaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await pool.connect();
    let broken: Error | undefined;
    try {
      await client.query('BEGIN');
      const result = await work(client);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      broken = error instanceof Error ? error : new Error(String(error));
      throw error;
    } finally {
      client.release(broken);
    }
  }

  await transaction(async (client) => {
    await client.query('SELECT pg_advisory_xact_lock(hashtext($1))', [`payments:${schemaName}`]);
    await client.query(sql.createTables);
  });

  return {
    async findOrder(id) {
      const { rows } = await pool.query(sql.findOrder, [id]);
      return rows[0] === undefined ? null : orderView.parse(withNumbers(rows[0]));
    },
    async addOrders(orders) {
      for (const order of orders)
        await pool.query(sql.addOrder, [
          order.id,
          order.customer_email,
          JSON.stringify(order.items),
          order.paid,
          order.currency,
          order.delivered_at,
          order.refunded_before,
        ]);
    },
    addRefund: (request, { key, honourKey, onePerOrder = false }) =>
      transaction(async (client): Promise<Written<Refund>> => {
        await client.query(sql.lockRefunds);
        const first = honourKey && key !== null ? await client.query(sql.findRefunds, [null, key]) : null;
        if (first?.rows[0] !== undefined) return replay(refund.parse(withNumbers(first.rows[0])), request);
        const known = await client.query(sql.findOrder, [request.order_id]);
        if (known.rows[0] === undefined) return { outcome: 'unknown_order' };
        const earlier = await client.query(sql.countRefunds, [request.order_id]);
        const count = Number(earlier.rows[0]?.count);
        if (onePerOrder && count > 0) return { outcome: 'already_refunded' };
        const { rows } = await client.query(sql.addRefund, [
          `re_${request.order_id}_${count + 1}`,
          request.order_id,
          request.amount,
          request.currency,
          request.reason,
          key,
        ]);
        return { outcome: 'created', row: refund.parse(withNumbers(rows[0])) };
      }),
    async findRefunds(orderId, key) {
      const { rows } = await pool.query(sql.findRefunds, [orderId, key]);
      return rows.map((row) => refund.parse(withNumbers(row)));
    },
    addMessage: (request, { key, honourKey }) =>
      transaction(async (client): Promise<Written<Message>> => {
        await client.query(sql.lockMessages);
        const first = honourKey && key !== null ? await client.query(sql.findMessages, [key]) : null;
        if (first?.rows[0] !== undefined) return replay(message.parse(withNumbers(first.rows[0])), request);
        const { rows } = await client.query(sql.addMessage, [
          request.ticket_id,
          request.to,
          request.text,
          key,
        ]);
        return { outcome: 'created', row: message.parse(withNumbers(rows[0])) };
      }),
    async books() {
      const refunds = (await pool.query(sql.findRefunds, [null, null])).rows;
      const messages = (await pool.query(sql.findMessages, [null])).rows;
      const sums = (await pool.query(sql.sums)).rows.map(withNumbers);
      return {
        refunds: refunds.map((row) => refund.parse(withNumbers(row))),
        messages: messages.map((row) => message.parse(withNumbers(row))),
        orders: Object.fromEntries(
          sums.map((row) => [
            String(row['order_id']),
            {
              refunds: Number(row['refunds']),
              total: Number(row['total']),
              currency: String(row['currency']),
            },
          ]),
        ),
      };
    },
    close: () => pool.end(),
  };
}

/** The first answer again, when what was asked is the same; a key is for one request only. */
function replay<T extends object>(first: T, request: object): Written<T> {
  const stored = new Map(Object.entries(first));
  const same = Object.entries(request).every(([field, value]) => stored.get(field) === value);
  return same ? { outcome: 'replayed', row: first } : { outcome: 'key_reused' };
}

/** Postgres gives numeric as text and timestamptz as Date; JSON has numbers and ISO text. */
function withNumbers(row: Record<string, unknown>): Record<string, unknown> {
  const changed = Object.entries(row).map(([name, value]) => {
    if (value instanceof Date) return [name, value.toISOString()];
    return [name, ['amount', 'paid', 'refunded', 'total'].includes(name) ? Number(value) : value];
  });
  return Object.fromEntries(changed);
}

function statements(schema: string) {
  return {
    createTables: `
      CREATE SCHEMA IF NOT EXISTS ${schema};
      CREATE TABLE IF NOT EXISTS ${schema}.orders (
        id text PRIMARY KEY,
        customer_email text NOT NULL,
        items json NOT NULL,
        paid numeric(12, 2) NOT NULL,
        currency text NOT NULL,
        delivered_at timestamptz,
        refunded_before numeric(12, 2) NOT NULL
      );
      CREATE TABLE IF NOT EXISTS ${schema}.refunds (
        sequence bigint GENERATED ALWAYS AS IDENTITY,
        id text PRIMARY KEY,
        order_id text NOT NULL REFERENCES ${schema}.orders (id),
        amount numeric(12, 2) NOT NULL,
        currency text NOT NULL,
        reason text NOT NULL,
        -- not unique: a service that does not honour keys takes the same one twice
        idempotency_key text,
        created_at timestamptz NOT NULL DEFAULT now()
      );
      CREATE TABLE IF NOT EXISTS ${schema}.messages (
        sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        ticket_id text NOT NULL,
        recipient text NOT NULL,
        body text NOT NULL,
        idempotency_key text,
        created_at timestamptz NOT NULL DEFAULT now()
      );`,
    findOrder: `
      SELECT id, customer_email, items, paid, currency, delivered_at,
        refunded_before + coalesce((SELECT sum(amount) FROM ${schema}.refunds WHERE order_id = o.id), 0) AS refunded
      FROM ${schema}.orders o WHERE id = $1`,
    addOrder: `
      INSERT INTO ${schema}.orders (id, customer_email, items, paid, currency, delivered_at, refunded_before)
      VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING`,
    // One writer at a time: the checks and the insert belong together.
    lockRefunds: `LOCK TABLE ${schema}.refunds IN SHARE ROW EXCLUSIVE MODE`,
    lockMessages: `LOCK TABLE ${schema}.messages IN SHARE ROW EXCLUSIVE MODE`,
    countRefunds: `SELECT count(*) AS count FROM ${schema}.refunds WHERE order_id = $1`,
    addRefund: `
      INSERT INTO ${schema}.refunds (id, order_id, amount, currency, reason, idempotency_key)
      VALUES ($1, $2, $3, $4, $5, $6)
      RETURNING id, order_id, amount, currency, reason, idempotency_key, created_at`,
    findRefunds: `
      SELECT id, order_id, amount, currency, reason, idempotency_key, created_at FROM ${schema}.refunds
      WHERE ($1::text IS NULL OR order_id = $1) AND ($2::text IS NULL OR idempotency_key = $2)
      ORDER BY sequence`,
    addMessage: `
      INSERT INTO ${schema}.messages (ticket_id, recipient, body, idempotency_key) VALUES ($1, $2, $3, $4)
      RETURNING 'msg_' || sequence AS id, ticket_id, recipient AS "to", body AS text, idempotency_key, created_at`,
    findMessages: `
      SELECT 'msg_' || sequence AS id, ticket_id, recipient AS "to", body AS text, idempotency_key, created_at
      FROM ${schema}.messages WHERE ($1::text IS NULL OR idempotency_key = $1) ORDER BY sequence`,
    sums: `
      SELECT order_id, count(*) AS refunds, sum(amount) AS total, min(currency) AS currency
      FROM ${schema}.refunds GROUP BY order_id ORDER BY order_id`,
  };
}
