import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** As much of S3 as artifacts need, in memory. Source: Amazon S3 API reference. */
export type S3Server = {
  endpoint: string;
  /** By `/bucket/key`. */
  objects: Map<string, Buffer>;
  /** Methods and operations in the order of their calls, such as `PUT part`. */
  calls: string[];
  /** Uploads in parts that were neither completed nor called off. */
  openUploads(): number;
  /** Answers every call with this, while it is set. */
  failWith: { status: number; code: string } | undefined;
  close(): Promise<void>;
};

type Stored = { body: Buffer; modified: Date };
/** What a call is answered with. */
type Answer = { status?: number; headers?: Record<string, string>; body?: string | Buffer };
type Call = { method: string; path: string; query: URLSearchParams; headers: IncomingMessage['headers'] };

const BUCKET = 'artifacts';
/** Keys on one page of a listing: S3 has 1,000. */
const PAGE = 2;

export async function startS3Server(): Promise<S3Server> {
  const stored = new Map<string, Stored>();
  const uploads = new Map<string, Map<number, Buffer>>();
  const calls: string[] = [];

  const put = (path: string, body: Buffer): Answer => {
    stored.set(path, { body, modified: new Date() });
    return { headers: { etag: etag(body) } };
  };

  const answer = ({ method, path, query, headers }: Call, body: Buffer): Answer => {
    const note = (what: string) => void calls.push(`${method} ${what}`);
    const uploadId = query.get('uploadId');
    const parts = uploadId === null ? undefined : uploads.get(uploadId);
    if (method === 'POST' && query.has('uploads')) {
      note('uploads');
      const id = randomUUID();
      uploads.set(id, new Map());
      return xml('InitiateMultipartUploadResult', `<UploadId>${id}</UploadId>`);
    }
    if (uploadId !== null) {
      if (!parts) return failure(404, 'NoSuchUpload');
      if (method === 'PUT') {
        note('part');
        parts.set(Number(query.get('partNumber')), body);
        return { headers: { etag: etag(body) } };
      }
      uploads.delete(uploadId);
      note(method === 'DELETE' ? 'abort' : 'complete');
      if (method === 'DELETE') return { status: 204 };
      const whole = Buffer.concat([...parts].sort(([a], [b]) => a - b).map(([, part]) => part));
      const { headers: made } = put(path, whole);
      return xml('CompleteMultipartUploadResult', `<ETag>${made?.['etag']}</ETag>`);
    }
    const source = headers['x-amz-copy-source'];
    if (method === 'PUT' && typeof source === 'string') {
      note('copy');
      const from = stored.get(decodeURIComponent(source).replace(/^\/*/, '/'));
      if (!from) return failure(404, 'NoSuchKey');
      put(path, from.body);
      return xml('CopyObjectResult', `<ETag>${etag(from.body)}</ETag>`);
    }
    if (method === 'GET' && query.has('list-type')) {
      note('list');
      return list(stored, path, query);
    }
    note('object');
    if (method === 'PUT') return put(path, body);
    if (method === 'DELETE') {
      stored.delete(path);
      return { status: 204 };
    }
    const found = stored.get(path);
    if (!found) return failure(404, 'NoSuchKey');
    return {
      headers: {
        'content-length': String(found.body.length),
        'last-modified': found.modified.toUTCString(),
        etag: etag(found.body),
      },
      body: found.body,
    };
  };

  const server = createServer((request, response) => {
    void (async () => {
      const url = new URL(request.url ?? '/', 'http://s3');
      const path = decodeURIComponent(url.pathname);
      const body = await buffer(request);
      const method = request.method ?? 'GET';
      const call = { method, path, query: url.searchParams, headers: request.headers };
      const { failWith } = s3;
      if (failWith) send(response, failure(failWith.status, failWith.code), method);
      else if (!path.startsWith(`/${BUCKET}`)) send(response, failure(404, 'NoSuchBucket'), method);
      else send(response, answer(call, body), method);
    })();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const s3: S3Server = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get objects() {
      return new Map([...stored].map(([path, { body }]) => [path, body]));
    },
    calls,
    openUploads: () => uploads.size,
    failWith: undefined,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return s3;
}

function list(stored: Map<string, Stored>, path: string, query: URLSearchParams): Answer {
  const prefix = query.get('prefix') ?? '';
  const after = query.get('continuation-token') ?? '';
  const root = `${path.replace(/\/$/, '')}/`;
  const keys = [...stored]
    .map(([key, { body, modified }]) => ({ key: key.slice(root.length), body, modified }))
    .filter(({ key }) => key.startsWith(prefix) && key > after)
    .sort((a, b) => (a.key < b.key ? -1 : 1));
  const page = keys.slice(0, PAGE);
  const more = keys.length > PAGE;
  return xml(
    'ListBucketResult',
    `<IsTruncated>${more}</IsTruncated>${more ? `<NextContinuationToken>${page.at(-1)?.key}</NextContinuationToken>` : ''}${page
      .map(
        ({ key, body, modified }) =>
          `<Contents><Key>${key}</Key><Size>${body.length}</Size><LastModified>${modified.toISOString()}</LastModified></Contents>`,
      )
      .join('')}`,
  );
}

function send(
  response: ServerResponse,
  { status = 200, headers = {}, body = '' }: Answer,
  method: string,
): void {
  response.writeHead(status, headers);
  response.end(method === 'HEAD' ? undefined : body);
}

function xml(name: string, inside: string, status = 200): Answer {
  return {
    status,
    headers: { 'content-type': 'application/xml' },
    body: `<?xml version="1.0" encoding="UTF-8"?><${name}>${inside}</${name}>`,
  };
}

const failure = (status: number, code: string): Answer =>
  xml('Error', `<Code>${code}</Code><Message>${code} it is</Message>`, status);

const etag = (body: Buffer): string => `"${createHash('md5').update(body).digest('hex')}"`;
