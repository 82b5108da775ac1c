import type { ReplyTexts } from './texts.ts';

export const zh: ReplyTexts = {
  greeting: '{name},您好!',
  refunded: '我们已为订单 {order} 退款 {amount},款项将在五个工作日内到账。',
  rejected: '我们认真核实了您关于订单 {order} 的申请,很抱歉无法退款。',
  order_not_found: '我们没有找到您名下的这笔订单。请回复确认邮件中的订单号。',
  already_refunded: '订单 {order} 已全额退款。如未看到款项,请先向银行查询。',
  excluded: '订单 {order} 中有按条款不接受退货的商品。',
  too_late: '订单 {order} 送达已超过 {days} 天,无法再退款。',
  wrong_currency: '订单 {order} 是用另一种货币支付的,请告诉我们该货币的金额。',
  more_than_paid: '您申请的金额超过订单 {order} 还可退的金额,请告诉我们正确的金额。',
  payment_refused: '订单 {order} 的 {amount} 退款未能完成,我们的同事会与您联系。',
  closing: '此致\n客服团队',
};
