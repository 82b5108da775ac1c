import type { ReplyTexts } from './texts.ts';

export const ja: ReplyTexts = {
  greeting: '{name} 様',
  refunded: 'ご注文 {order} について {amount} を返金いたしました。五営業日以内にお手元に届きます。',
  rejected: 'ご注文 {order} についてのご依頼を慎重に確認いたしましたが、返金はいたしかねます。',
  order_not_found:
    'お客様のお名前でご注文を見つけることができませんでした。確認メールにある注文番号をお知らせください。',
  already_refunded:
    'ご注文 {order} はすでに全額を返金済みです。入金が見当たらない場合は、まず銀行にお問い合わせください。',
  excluded: 'ご注文 {order} には、規約により返品をお受けできない商品が含まれています。',
  too_late: 'ご注文 {order} のお届けから {days} 日を過ぎているため、返金いたしかねます。',
  wrong_currency: 'ご注文 {order} は別の通貨でお支払いいただいています。その通貨での金額をお知らせください。',
  more_than_paid:
    'ご希望の金額は、ご注文 {order} で返金できる額を超えています。正しい金額をお知らせください。',
  payment_refused: 'ご注文 {order} の {amount} の返金を完了できませんでした。担当者よりご連絡いたします。',
  closing: 'どうぞよろしくお願いいたします。\nカスタマーサポート',
};
