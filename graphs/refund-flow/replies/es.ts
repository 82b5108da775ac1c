import type { ReplyTexts } from './texts.ts';

export const es: ReplyTexts = {
  greeting: 'Hola, {name}:',
  refunded:
    'Hemos reembolsado {amount} del pedido {order}. Recibirá el dinero en un plazo de cinco días laborables.',
  rejected:
    'Hemos estudiado con atención su solicitud sobre el pedido {order} y no podemos conceder el reembolso.',
  order_not_found:
    'No hemos encontrado el pedido a su nombre. Responda, por favor, con el número que figura en la confirmación.',
  already_refunded:
    'El pedido {order} ya se reembolsó por completo. Si no ve el dinero, consulte primero con su banco.',
  excluded: 'El pedido {order} contiene un artículo que, según nuestras condiciones, no admite devolución.',
  too_late:
    'Han pasado más de {days} días desde la entrega del pedido {order}, por lo que ya no podemos reembolsarlo.',
  wrong_currency:
    'El pedido {order} se pagó en otra moneda. Indíquenos, por favor, el importe en esa moneda.',
  more_than_paid:
    'El importe solicitado supera lo que aún puede reembolsarse del pedido {order}. Indíquenos, por favor, el importe correcto.',
  payment_refused:
    'No se ha podido realizar el reembolso de {amount} del pedido {order}. Un compañero le escribirá.',
  closing: 'Un cordial saludo\nSu equipo de atención al cliente',
};
