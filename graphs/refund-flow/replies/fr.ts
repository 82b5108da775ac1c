import type { ReplyTexts } from './texts.ts';

export const fr: ReplyTexts = {
  greeting: 'Bonjour {name},',
  refunded:
    'Nous avons remboursé {amount} pour la commande {order}. La somme vous parviendra sous cinq jours ouvrés.',
  rejected:
    'Nous avons examiné avec soin votre demande sur la commande {order} et ne pouvons pas la rembourser.',
  order_not_found:
    'Nous n’avons pas trouvé la commande à votre nom. Merci de nous répondre avec son numéro, qui figure dans la confirmation.',
  already_refunded:
    'La commande {order} a déjà été entièrement remboursée. Si vous ne voyez pas la somme, adressez-vous d’abord à votre banque.',
  excluded: 'La commande {order} contient un article que nos conditions ne permettent pas de reprendre.',
  too_late:
    'Plus de {days} jours se sont écoulés depuis la livraison de la commande {order} ; nous ne pouvons plus la rembourser.',
  wrong_currency:
    'La commande {order} a été payée dans une autre devise. Merci de nous indiquer le montant dans cette devise.',
  more_than_paid:
    'Le montant demandé dépasse ce qui peut encore être remboursé pour la commande {order}. Merci de nous indiquer le bon montant.',
  payment_refused:
    'Le remboursement de {amount} pour la commande {order} n’a pas pu être effectué. Un collègue vous écrira.',
  closing: 'Cordialement\nVotre service client',
};
