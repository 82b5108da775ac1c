import { openArtifacts, type Artifacts } from '../artifacts/artifacts.ts';
import { parseArtifactPlace, type S3Options } from '../config/artifact-settings.ts';
import type { PerdureClient } from './client.ts';

export type ArtifactPlace = {
  /** A folder (a relative one begins at the working directory), or `s3://bucket/prefix`. As PERDURE_ARTIFACTS. */
  place: string;
  /** Of a bucket. Credentials come from the AWS SDK's own environment. */
  s3?: S3Options;
};

/**
 * The large things of the client's tenant: put them in and read them as streams, hold them, erase them. Nothing is
 * reached before the first call; close() closes connections to the bucket, not the client.
 * @throws ConfigError where the place is none, or S3's packages are not installed
 */
export async function artifacts(client: PerdureClient, { place, s3 }: ArtifactPlace): Promise<Artifacts> {
  return openArtifacts({
    database: client.database,
    tenant: client.tenant,
    settings: parseArtifactPlace(place, process.cwd(), s3),
  });
}
