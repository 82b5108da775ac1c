import type { ReplyTexts } from './texts.ts';

export const ko: ReplyTexts = {
  greeting: '{name} 고객님, 안녕하세요.',
  refunded: '주문 {order}에 대해 {amount}을 환불해 드렸습니다. 영업일 기준 5일 안에 입금됩니다.',
  rejected: '주문 {order}에 대한 요청을 꼼꼼히 검토했으나 환불해 드릴 수 없습니다.',
  order_not_found: '고객님 이름으로 된 주문을 찾지 못했습니다. 확인 메일에 있는 주문 번호를 알려 주세요.',
  already_refunded:
    '주문 {order}은 이미 전액 환불되었습니다. 입금이 보이지 않으면 먼저 은행에 문의해 주세요.',
  excluded: '주문 {order}에는 약관상 반품할 수 없는 상품이 있습니다.',
  too_late: '주문 {order}이 배송된 지 {days}일이 넘어 환불해 드릴 수 없습니다.',
  wrong_currency: '주문 {order}은 다른 통화로 결제되었습니다. 그 통화로 금액을 알려 주세요.',
  more_than_paid:
    '요청하신 금액이 주문 {order}에서 환불할 수 있는 금액보다 많습니다. 올바른 금액을 알려 주세요.',
  payment_refused: '주문 {order}의 {amount} 환불을 처리하지 못했습니다. 담당자가 연락드리겠습니다.',
  closing: '감사합니다.\n고객 지원팀',
};
