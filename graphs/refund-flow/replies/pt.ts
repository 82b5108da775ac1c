import type { ReplyTexts } from './texts.ts';

export const pt: ReplyTexts = {
  greeting: 'Olá, {name}!',
  refunded: 'Reembolsamos {amount} do pedido {order}. O dinheiro chegará em até cinco dias úteis.',
  rejected:
    'Analisamos com cuidado a sua solicitação sobre o pedido {order} e não podemos conceder o reembolso.',
  order_not_found:
    'Não encontramos o pedido em seu nome. Responda, por favor, com o número que está na confirmação.',
  already_refunded:
    'O pedido {order} já foi reembolsado por inteiro. Se não vir o dinheiro, consulte primeiro o seu banco.',
  excluded: 'O pedido {order} contém um item que, segundo as nossas condições, não aceita devolução.',
  too_late:
    'Passaram mais de {days} dias desde a entrega do pedido {order}, por isso já não podemos reembolsá-lo.',
  wrong_currency: 'O pedido {order} foi pago em outra moeda. Informe, por favor, o valor nessa moeda.',
  more_than_paid:
    'O valor pedido é maior do que ainda pode ser reembolsado do pedido {order}. Informe, por favor, o valor correto.',
  payment_refused:
    'O reembolso de {amount} do pedido {order} não pôde ser feito. Um colega escreverá para você.',
  closing: 'Atenciosamente\nSua equipe de atendimento',
};
