import { resolve } from 'node:path';
import { ConfigError } from '../contracts/errors.ts';

/** Where the bytes of artifacts lie. */
export type ArtifactSettings =
  | { kind: 'folder'; folder: string }
  | {
      kind: 's3';
      bucket: string;
      /** Keys begin with it and `/`; `''`: nothing. */
      prefix: string;
      /** Of a server that is not Amazon's. */
      endpoint: string | undefined;
      /** Undefined: the SDK finds it by itself. */
      region: string | undefined;
      /** The bucket is named in the path, not in the host. */
      pathStyle: boolean;
    };

export type S3Options = {
  /** A server that is not Amazon's, such as `http://localhost:9000`. */
  endpoint?: string | undefined;
  /** Default: what the SDK finds; `us-east-1` with an endpoint. */
  region?: string | undefined;
  /** Default: true with an endpoint. */
  pathStyle?: boolean | undefined;
};

/** Source: Amazon S3 user guide, "Bucket naming rules", and what older buckets may have. */
const S3_URL = /^s3:\/\/(?<bucket>[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9])(?:\/(?<prefix>.*))?$/;

/**
 * Reads a folder or `s3://bucket/prefix`.
 * @param cwd the folder that a relative one starts from.
 * @throws ConfigError
 */
export function parseArtifactPlace(
  place: string,
  cwd: string,
  { endpoint, region, pathStyle }: S3Options = {},
): ArtifactSettings {
  if (!place.startsWith('s3:')) {
    if (/^[a-z][a-z0-9+.-]*:\/\//i.test(place)) throw invalid(place);
    return { kind: 'folder', folder: resolve(cwd, place) };
  }
  const { bucket, prefix = '' } = S3_URL.exec(place)?.groups ?? {};
  const parts = prefix.split('/').filter((part) => part !== '');
  if (bucket === undefined || parts.some((part) => part === '.' || part === '..' || /[\p{Cc}?#]/u.test(part)))
    throw invalid(place);
  return {
    kind: 's3',
    bucket,
    prefix: parts.join('/'),
    endpoint,
    region: region ?? (endpoint === undefined ? undefined : 'us-east-1'),
    pathStyle: pathStyle ?? endpoint !== undefined,
  };
}

function invalid(place: string): ConfigError {
  return new ConfigError(`PERDURE_ARTIFACTS: '${place}' is neither a folder nor s3://bucket/prefix.`, {
    variable: 'PERDURE_ARTIFACTS',
  });
}
