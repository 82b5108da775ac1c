import { describe, expect, test } from 'vitest';
import { projectFiles, readText } from './project-files.ts';

const files = projectFiles();
const source = /\.(ts|tsx|mts|mjs|js)$/;

describe('length', () => {
  test.each([
    ['src', 400],
    ['workers', 400],
    ['graphs', 400],
    ['bench', 400],
    ['test', 600],
  ])('no source file in %s/ is over %i lines: it would be two files', (folder, most) => {
    const long = files
      .filter((path) => path.startsWith(`${folder}/`) && source.test(path))
      .map((path) => ({ path, lines: linesOf(readText(path)) }))
      .filter(({ lines }) => lines > most);
    expect(long).toEqual([]);
  });

  test('is counted in lines as an editor shows them', () => {
    expect(linesOf('a\nb\n')).toBe(2);
    expect(linesOf('a\nb')).toBe(2);
  });
});

describe('names of places', () => {
  test('no text names a folder of one machine or the host of a package registry', () => {
    const text = files.filter((path) => !/\.(png|jpg|gif|ico|woff2?|onnx|gz|tgz)$/.test(path));
    expect(text).toContain('package-lock.json');
    expect(text.flatMap((path) => placesIn(readText(path)).map((place) => `${path} names ${place}`))).toEqual(
      [],
    );
  });

  // Written with a ~, which closed() takes out, so that this file does not name them either.
  test.each([
    ['see /wo~rk/main/src', '/wo~rk/'],
    ['cd /ro~ot/.cache', '/ro~ot/'],
    ['in /tmp/bash_~jobs.0/x', '/tmp/bash_~jobs'],
    ['"resolved": "https://regis~try.npmjs.org/zod"', 'regis~try.npmjs'],
    ['https://regis~try.yarnpkg.com/zod', 'regis~try.yarnpkg'],
    ['http://localhost/artifac~tory/api/npm', 'artifac~tory/api'],
  ])('%s is seen', (text, place) => {
    expect(placesIn(closed(text))).toEqual([closed(place)]);
  });

  test.each(['https://example.com/wo~rk/items', './wo~rk/items', 'the root/ of a tree'])(
    '%s is let through',
    (text) => {
      expect(placesIn(closed(text))).toEqual([]);
    },
  );

  test('the lockfile says what a package is, not where it was fetched from', () => {
    const lock = JSON.parse(readText('package-lock.json')) as {
      packages: Record<string, { resolved?: string }>;
    };
    const fetched = Object.entries(lock.packages).filter(([, { resolved }]) => resolved?.includes('://'));
    expect(fetched).toEqual([]);
  });
});

const PLACES = new RegExp(
  [
    String.raw`(?<![\w.-])/wo~rk/`,
    String.raw`(?<![\w.-])/ro~ot/`,
    String.raw`/tmp/bash_~jobs`,
    String.raw`regis~try\.(?:npmjs|yarnpkg|npmmirror)`,
    String.raw`artifac~tory/api`,
  ]
    .map(closed)
    .join('|'),
  'g',
);

function placesIn(text: string): string[] {
  return [...text.matchAll(PLACES)].map(([place]) => place);
}

function closed(text: string): string {
  return text.replaceAll('~', '');
}

function linesOf(text: string): number {
  return text.replace(/\n$/, '').split('\n').length;
}
