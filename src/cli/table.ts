import Table from 'cli-table3';
import { plain } from './output.ts';

/** No rules and no corners, so that a line can be cut and pasted. */
const BARE = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
};

/** The widest a cell of free text gets. */
const MAX_CELL = 80;

/** Rows under their headings, or `empty` where there are none. */
export function table(head: string[], rows: (string | number | null)[][], empty: string): string {
  if (rows.length === 0) return empty;
  const made = new Table({
    head,
    chars: BARE,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  for (const row of rows) made.push(row.map((content) => (content === null ? '' : plain(String(content)))));
  return made.toString().replace(/[^\S\n]+$/gm, '');
}

/** One line of what may be long. */
export function cell(value: unknown): string {
  const text = (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).replace(/\s+/g, ' ');
  return text.length > MAX_CELL ? `${text.slice(0, MAX_CELL - 1)}…` : text;
}

/** `2025-12-01 14:05:09Z` of an ISO time. */
export function time(iso: string | null): string {
  return iso === null ? '' : iso.replace('T', ' ').replace(/\.\d+Z$/, 'Z');
}
