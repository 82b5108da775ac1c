export { down, removeHome, type DownOptions, type StoppedServer } from './down.ts';
export {
  HomeLockedError,
  HomeUnusableError,
  ServerStartError,
  ServerStopError,
  TemporalNotFoundError,
} from './errors.ts';
export { mendPostgresLinks, missingPostgresLinks } from './postgres-binaries.ts';
export { isHome } from './servers-file.ts';
export { serverStatus, type ServerRecord, type ServerStatus } from './status.ts';
export { up, type RunningServer, type RunningServers, type UpOptions } from './up.ts';
