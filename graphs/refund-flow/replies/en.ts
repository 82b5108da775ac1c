import type { ReplyTexts } from './texts.ts';

export const en: ReplyTexts = {
  greeting: 'Dear {name},',
  refunded:
    'We have refunded {amount} for order {order}. The money will be on its way to you within five working days.',
  rejected: 'We have looked at your request for order {order} with care and cannot grant a refund.',
  order_not_found:
    'We could not find the order in your name. Please reply with its number; it is in the confirmation we sent you.',
  already_refunded:
    'Order {order} was already refunded in full. If you cannot see the money, please ask your bank first.',
  excluded: 'Order {order} holds something that we cannot take back, as our terms say.',
  too_late:
    'More than {days} days have passed since order {order} was delivered, so we cannot refund it any more.',
  wrong_currency: 'Order {order} was paid in another currency. Please tell us the amount in that currency.',
  more_than_paid:
    'You asked for more than can still be refunded for order {order}. Please tell us the right amount.',
  payment_refused:
    'The refund of {amount} for order {order} could not be carried out. A colleague will write to you.',
  closing: 'Kind regards\nYour support team',
};
