import type { ReplyTexts } from './texts.ts';

export const nl: ReplyTexts = {
  greeting: 'Beste {name},',
  refunded:
    'We hebben {amount} voor bestelling {order} terugbetaald. Het geld staat binnen vijf werkdagen op je rekening.',
  rejected: 'We hebben je verzoek over bestelling {order} zorgvuldig bekeken en kunnen niets terugbetalen.',
  order_not_found:
    'We hebben de bestelling niet op jouw naam gevonden. Stuur ons het nummer uit de bevestiging.',
  already_refunded:
    'Bestelling {order} is al helemaal terugbetaald. Zie je het geld niet, vraag het dan eerst aan je bank.',
  excluded: 'In bestelling {order} zit iets dat we volgens onze voorwaarden niet terugnemen.',
  too_late:
    'Bestelling {order} is meer dan {days} dagen geleden geleverd; we kunnen die niet meer terugbetalen.',
  wrong_currency: 'Bestelling {order} is in een andere munt betaald. Laat ons het bedrag in die munt weten.',
  more_than_paid:
    'Je vraagt meer dan we voor bestelling {order} nog kunnen terugbetalen. Laat ons het juiste bedrag weten.',
  payment_refused:
    'De terugbetaling van {amount} voor bestelling {order} is niet gelukt. Een collega schrijft je.',
  closing: 'Met vriendelijke groet\nJe klantenservice',
};
