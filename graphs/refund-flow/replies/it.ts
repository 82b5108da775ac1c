import type { ReplyTexts } from './texts.ts';

export const it: ReplyTexts = {
  greeting: 'Buongiorno {name},',
  refunded:
    'abbiamo rimborsato {amount} per l’ordine {order}. Riceverà il denaro entro cinque giorni lavorativi.',
  rejected:
    'abbiamo esaminato con cura la Sua richiesta per l’ordine {order} e non possiamo concedere il rimborso.',
  order_not_found:
    'non abbiamo trovato l’ordine a Suo nome. La preghiamo di risponderci con il numero indicato nella conferma.',
  already_refunded:
    'l’ordine {order} è già stato rimborsato per intero. Se non vede il denaro, si rivolga prima alla Sua banca.',
  excluded: 'l’ordine {order} contiene un articolo che le nostre condizioni non permettono di restituire.',
  too_late:
    'sono passati più di {days} giorni dalla consegna dell’ordine {order}, perciò non possiamo più rimborsarlo.',
  wrong_currency:
    'l’ordine {order} è stato pagato in un’altra valuta. La preghiamo di indicarci l’importo in quella valuta.',
  more_than_paid:
    'l’importo richiesto supera quanto può ancora essere rimborsato per l’ordine {order}. La preghiamo di indicarci quello corretto.',
  payment_refused:
    'il rimborso di {amount} per l’ordine {order} non è riuscito. Le scriverà un nostro collega.',
  closing: 'Cordiali saluti\nIl Suo servizio clienti',
};
