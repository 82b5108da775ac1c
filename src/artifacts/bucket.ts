import { FileStorage } from '@flystorage/file-storage';
import type { ArtifactSettings } from '../config/artifact-settings.ts';
import { ConfigError } from '../contracts/errors.ts';
import { objectsOf, type Objects } from './objects.ts';

/** The largest object that S3 copies in one call, and so the largest upload that can be moved to its hash. */
const MAX_COPY = 5 * 1_024 ** 3;

/** Parts of one upload, of 5 MB each, that are under way at a time. The SDK's own 4 take 210 MB of memory. */
const PARTS_AT_ONCE = 2;

/** Objects of an S3 bucket. Loads the SDK. @throws ConfigError where it is not installed. */
export async function openBucket(settings: Extract<ArtifactSettings, { kind: 's3' }>): Promise<Objects> {
  const { AwsS3StorageAdapter, S3Client } = await loadPackages();
  const { bucket, prefix, endpoint, region, pathStyle } = settings;
  const client = new S3Client({
    forcePathStyle: pathStyle,
    ...(region === undefined ? {} : { region }),
    // Servers that are not Amazon's may not know the SDK's own checksums; ours is checked in any case.
    ...(endpoint === undefined
      ? {}
      : {
          endpoint,
          requestChecksumCalculation: 'WHEN_REQUIRED',
          responseChecksumValidation: 'WHEN_REQUIRED',
        }),
  });
  const adapter = new AwsS3StorageAdapter(client, {
    bucket,
    prefix,
    uploadConfiguration: { queueSize: PARTS_AT_ONCE },
  });
  return objectsOf(adapter, new FileStorage(adapter), {
    place: `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`,
    maxSize: MAX_COPY,
    close: () => client.destroy(),
  });
}

async function loadPackages() {
  try {
    const [{ AwsS3StorageAdapter }, { S3Client }] = await Promise.all([
      import('@flystorage/aws-s3'),
      import('@aws-sdk/client-s3'),
    ]);
    return { AwsS3StorageAdapter, S3Client };
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND')) throw error;
    throw new ConfigError(
      'PERDURE_ARTIFACTS names a bucket, but the packages for S3 are not installed. Run: npm install @flystorage/aws-s3 @aws-sdk/client-s3',
      { variable: 'PERDURE_ARTIFACTS' },
      { cause: error },
    );
  }
}
