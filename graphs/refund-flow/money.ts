export type Money = { amount: number; currency: string };

/** How amounts of a currency are written in tickets: signs and words, without regard to case. */
const WRITTEN: Record<string, string> = {
  EUR: '€|EUR|euros?|ユーロ|欧元|يورو',
  USD: 'US\\$|\\$|USD|dollars?|دولار',
  GBP: '£|GBP|pounds?',
  BRL: 'R\\$|BRL|reais',
  JPY: 'JPY|yen|円|日元',
  CNY: 'CNY|RMB|人民币|元',
  KRW: '₩|KRW|원',
  PLN: 'PLN|zł',
  // The sign of two currencies; the customer's language decides.
  '¥': '¥',
};

const ANY = ['R\\$', 'US\\$', ...Object.values(WRITTEN)].join('|');
const NUMBER = "(?<![\\d.,])(?:\\d{1,3}(?:[.,' ]\\d{3})+(?:[.,]\\d{1,2})?|\\d+(?:[.,]\\d{1,2})?)(?!\\d)";
const AMOUNT = new RegExp(
  `(?<after>${NUMBER}) ?(?<unit>${ANY})(?![a-z])|(?<![a-z])(?<sign>${ANY}) ?(?<before>${NUMBER})`,
  'giu',
);

/** The amounts that a text names, in order, each once. */
export function findAmounts(text: string, language: string): Money[] {
  const found = new Map<string, Money>();
  for (const { groups } of text.matchAll(AMOUNT)) {
    const amount = readNumber(groups?.['after'] ?? groups?.['before'] ?? '');
    const currency = currencyOf(groups?.['unit'] ?? groups?.['sign'] ?? '', language);
    if (amount > 0 && currency !== undefined) found.set(`${amount} ${currency}`, { amount, currency });
  }
  return [...found.values()];
}

/** `49,90` and `1.249,00` and `1,280`: the last separator is a decimal one when one or two digits follow it. */
export function readNumber(text: string): number {
  const decimals = /[.,](\d{1,2})$/.exec(text);
  const whole = (decimals === null ? text : text.slice(0, decimals.index)).replaceAll(/\D/g, '');
  return Number(`${whole}.${decimals?.[1] ?? '0'}`);
}

/** Rounds away what adding decimals leaves: 0.1 + 0.2 is 0.3 here. */
export function cents(amount: number): number {
  return Math.round(amount * 100) / 100;
}

/** `49.90 EUR`, `3200 JPY`: the same on every machine, which a locale's format is not. */
export function showMoney({ amount, currency }: Money): string {
  return `${Number.isInteger(amount) ? amount : amount.toFixed(2)} ${currency}`;
}

function currencyOf(written: string, language: string): string | undefined {
  const [code] =
    Object.entries(WRITTEN).find(([, forms]) => new RegExp(`^(?:${forms})$`, 'iu').test(written)) ?? [];
  if (code !== '¥') return code;
  return language.startsWith('zh') ? 'CNY' : 'JPY';
}
