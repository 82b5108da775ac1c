const HIDDEN = '[redacted]';

/** What gives a secret away by its own shape, or by the word before it. The first group stays. */
const SECRETS: readonly RegExp[] = [
  /(-----BEGIN [A-Z ]*PRIVATE KEY-----)[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g,
  /(\b[a-z][a-z0-9+.-]*:\/\/[^\s:/@]*:)[^\s/@]+(?=@)/gi,
  /(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}/gi,
  /(\b[\w-]*(?:api[_-]?key|apikey|secret|password|passwd|pwd|token|authorization|x-api-key|cookie)["']?\s*[:=]\s*["']?)(?!\[redacted\]|bearer\b|basic\b)[^\s"',;&)}]{4,}/gi,
  /()\bsk-[A-Za-z0-9_-]{16,}/g,
  /()\b[srp]k_(?:live|test)_[A-Za-z0-9]{10,}/g,
  /()\bwhsec_[A-Za-z0-9]{10,}/g,
  /()\bgh[pousr]_[A-Za-z0-9]{20,}/g,
  /()\bgithub_pat_\w{20,}/g,
  /()\bglpat-[\w-]{16,}/g,
  /()\bxox[a-z]-[A-Za-z0-9-]{10,}/g,
  /()\bA[KS]IA[A-Z0-9]{16}\b/g,
  /()\bAIza[\w-]{30,}/g,
  /()\blsv2_[a-z]+_[A-Za-z0-9_]{16,}/g,
  /()\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g,
];

/**
 * The text of an error without what looks like a secret: bearer tokens, keys of well-known services, passwords in
 * connection strings, `api_key=…` and its kind, private keys, JSON web tokens.
 */
export function redact(text: string): string {
  return SECRETS.reduce((clean, pattern) => clean.replace(pattern, `$1${HIDDEN}`), text);
}
