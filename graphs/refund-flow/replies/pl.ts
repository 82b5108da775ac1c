import type { ReplyTexts } from './texts.ts';

export const pl: ReplyTexts = {
  greeting: 'Dzień dobry, {name}!',
  refunded: 'Zwróciliśmy {amount} za zamówienie {order}. Pieniądze dotrą w ciągu pięciu dni roboczych.',
  rejected: 'Dokładnie sprawdziliśmy zgłoszenie dotyczące zamówienia {order} i nie możemy dokonać zwrotu.',
  order_not_found:
    'Nie znaleźliśmy zamówienia na to nazwisko. Prosimy o odpowiedź z numerem podanym w potwierdzeniu.',
  already_refunded:
    'Za zamówienie {order} zwróciliśmy już całą kwotę. Jeśli jej nie widać, prosimy najpierw zapytać w banku.',
  excluded: 'Zamówienie {order} zawiera produkt, którego zgodnie z regulaminem nie przyjmujemy z powrotem.',
  too_late: 'Od dostawy zamówienia {order} minęło więcej niż {days} dni, więc nie możemy już dokonać zwrotu.',
  wrong_currency: 'Zamówienie {order} opłacono w innej walucie. Prosimy o podanie kwoty w tej walucie.',
  more_than_paid:
    'Podana kwota przekracza to, co można jeszcze zwrócić za zamówienie {order}. Prosimy o podanie właściwej kwoty.',
  payment_refused:
    'Zwrot {amount} za zamówienie {order} nie powiódł się. Nasz współpracownik napisze do Państwa.',
  closing: 'Z poważaniem\nDział obsługi klienta',
};
