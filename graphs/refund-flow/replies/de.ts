import type { ReplyTexts } from './texts.ts';

export const de: ReplyTexts = {
  greeting: 'Guten Tag {name},',
  refunded:
    'wir haben {amount} für die Bestellung {order} erstattet. Das Geld ist innerhalb von fünf Werktagen bei Ihnen.',
  rejected:
    'wir haben Ihre Anfrage zur Bestellung {order} sorgfältig geprüft und können leider nichts erstatten.',
  order_not_found:
    'wir haben die Bestellung unter Ihrem Namen nicht gefunden. Bitte nennen Sie uns die Bestellnummer aus Ihrer Bestätigung.',
  already_refunded:
    'die Bestellung {order} wurde bereits vollständig erstattet. Falls das Geld fehlt, fragen Sie bitte zuerst Ihre Bank.',
  excluded:
    'die Bestellung {order} enthält etwas, das wir laut unseren Bedingungen nicht zurücknehmen können.',
  too_late:
    'die Lieferung der Bestellung {order} liegt mehr als {days} Tage zurück, daher können wir sie nicht mehr erstatten.',
  wrong_currency:
    'die Bestellung {order} wurde in einer anderen Währung bezahlt. Bitte nennen Sie uns den Betrag in dieser Währung.',
  more_than_paid:
    'der genannte Betrag ist höher als das, was für die Bestellung {order} noch erstattet werden kann. Bitte nennen Sie uns den richtigen Betrag.',
  payment_refused:
    'die Erstattung von {amount} für die Bestellung {order} konnte nicht ausgeführt werden. Eine Kollegin oder ein Kollege meldet sich bei Ihnen.',
  closing: 'Freundliche Grüße\nIhr Kundendienst',
};
