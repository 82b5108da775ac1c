import pc from 'picocolors';
import type { Books } from '../payments/contracts.ts';

/** Tells the story in the terminal. */
export class Narrator {
  readonly #begun = Date.now();
  #chapter = 0;

  chapter(title: string): void {
    this.#chapter += 1;
    this.#write(`\n${pc.bold(`${this.#chapter}. ${title}`)}`);
  }

  say(text: string): void {
    this.#write(`   ${text}`);
  }

  event(text: string): void {
    const seconds = ((Date.now() - this.#begun) / 1_000).toFixed(1).padStart(5);
    this.#write(`   ${pc.dim(`${seconds} s`)}  ${text}`);
  }

  killed(text: string): void {
    this.event(pc.red(text));
  }

  quote(text: string): void {
    for (const line of text.split('\n')) this.#write(`   ${pc.dim('|')} ${line}`);
  }

  books(books: Books, orderId: string): void {
    const rows = books.refunds.filter((refund) => refund.order_id === orderId);
    this.#write(
      `   ${pc.dim("the payment service's books for")} ${orderId}: ${rows.length === 0 ? 'no refund' : rows.length === 1 ? '1 refund' : `${rows.length} refunds`}`,
    );
    for (const row of rows)
      this.#write(
        `   ${pc.dim('|')} ${row.id}  ${row.amount} ${row.currency}  key ${row.idempotency_key ?? 'none'}`,
      );
  }

  #write(line: string): void {
    process.stdout.write(`${line}\n`);
  }
}
