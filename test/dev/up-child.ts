import { up, type UpOptions } from '../../src/dev/index.ts';

const options = JSON.parse(process.argv[2] ?? '{}') as UpOptions;
const servers = await up({ ...options, onProgress: (line) => console.error(line) });
console.log(JSON.stringify(servers));
