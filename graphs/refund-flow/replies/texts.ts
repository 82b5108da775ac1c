/**
 * What we write to customers, in one language. In the texts `{name}`, `{order}`, `{amount}` and `{days}` stand for
 * the customer's name, the order, the money and the days within which a refund can be asked for.
 */
export type ReplyTexts = {
  greeting: string;
  refunded: string;
  rejected: string;
  /** Also for another customer's order: whether it exists is not for the asker to know. */
  order_not_found: string;
  already_refunded: string;
  excluded: string;
  too_late: string;
  wrong_currency: string;
  more_than_paid: string;
  payment_refused: string;
  closing: string;
};
