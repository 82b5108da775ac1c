import { Option, type Command } from 'commander';
import { ARTIFACT_STATUSES } from '../contracts/artifacts.ts';
import type { GcOptions, GetOptions, ListOptions, PutOptions, VerifyOptions } from './artifact-commands.ts';
import { addCommon, examples, limit, type Start } from './program-parts.ts';

const commands = () => import('./artifact-commands.ts');

/** The commands for large things. */
export function addArtifactCommands(program: Command, start: Start): void {
  const artifacts = addCommon(program.command('artifacts'))
    .summary('keep large things: list, put, get, verify, erase, gc')
    .description(
      'Keeps large things beside the state of threads, in a folder or an S3 bucket (PERDURE_ARTIFACTS). State holds a reference: id, hash, size, media type, status. The same bytes are kept once, and every read is checked against their hash.',
    )
    .enablePositionalOptions()
    .addHelpText(
      'after',
      examples(
        'perdure artifacts put report.pdf --media-type application/pdf',
        'perdure artifacts list --json',
        'perdure artifacts get ID --output report.pdf',
      ),
    );
  addCommon(artifacts.command('list'))
    .summary('list artifacts')
    .description('Lists artifacts, newest first.')
    .addOption(new Option('--status <status>', 'only these').choices(ARTIFACT_STATUSES))
    .option('--thread <id>', 'only those that this thread made')
    .addOption(limit('artifacts', 50))
    .addHelpText(
      'after',
      examples('perdure artifacts list', 'perdure artifacts list --status quarantined --json'),
    )
    .action(async (options: ListOptions, command: Command) =>
      start(command, async (session) => (await commands()).showArtifacts(session, options)),
    );
  addCommon(artifacts.command('put'))
    .summary('take a file in')
    .description(
      'Takes a file in, of any size, and prints its reference. Where the same bytes are there already, that artifact is the result. What was put in this way stays until it is erased: the user holds it.',
    )
    .argument('<file>', "a file, or '-' for stdin")
    .option('--media-type <type>', 'what it is', 'application/octet-stream')
    .option('--name <name>', "what to call it (default: the file's name)")
    .addHelpText(
      'after',
      examples(
        'perdure artifacts put report.pdf --media-type application/pdf',
        'pg_dump shop | perdure artifacts put - --name shop.sql --media-type application/sql --json',
      ),
    )
    .action(async (file: string, options: PutOptions, command: Command) =>
      start(command, async (session) => (await commands()).putArtifact(session, file, options)),
    );
  addCommon(artifacts.command('get'))
    .summary('write an artifact to a file or to stdout')
    .description(
      'Reads an artifact and checks it. A file appears only when all bytes were right; on stdout, the last of them come only then, and the exit status tells.',
    )
    .argument('<id>', 'its artifact_id')
    .option(
      '--output <file>',
      "the file to write, or '-' for stdout (default: stdout, unless that is a terminal)",
    )
    .addHelpText(
      'after',
      examples('perdure artifacts get ID --output report.pdf', 'perdure artifacts get ID | tar tz'),
    )
    .action(async (id: string, options: GetOptions, command: Command) =>
      start(command, async (session) => (await commands()).getArtifact(session, id, options)),
    );
  addCommon(artifacts.command('verify'))
    .summary('read artifacts and check every byte')
    .description(
      'Reads one artifact, or all that are ready, and compares size and hash with what was put in. Says what is wrong, and with --quarantine refuses it to readers from then on. What is missing is never quarantined: a disk may not be mounted.',
    )
    .argument('[id]', 'its artifact_id (default: all that are ready)')
    .option('--quarantine', 'put what is wrong in quarantine')
    .addHelpText(
      'after',
      `${examples('perdure artifacts verify', 'perdure artifacts verify ID --quarantine --json')}\n\nExit status: 0 all right, 1 when something is wrong, 2 wrong usage.`,
    )
    .action(async (id: string | undefined, options: VerifyOptions, command: Command) =>
      start(command, async (session) => (await commands()).verifyArtifacts(session, id, options)),
    );
  addCommon(artifacts.command('erase'))
    .summary("remove an artifact's bytes for good")
    .description(
      'Removes the bytes, whoever refers to them. The record stays, as erased, without its name. The same bytes put in again are another artifact.',
    )
    .argument('<id>', 'its artifact_id')
    .addHelpText('after', examples('perdure artifacts erase ID', 'perdure artifacts erase ID --json'))
    .action(async (id: string, _: unknown, command: Command) =>
      start(command, async (session) => (await commands()).eraseArtifact(session, id)),
    );
  addCommon(artifacts.command('gc'))
    .summary('remove what nothing needs')
    .description(
      'Removes ready artifacts that nothing holds, uploads that were cut off, and objects that a crash left, once they are older than the grace. Nothing is collected by itself. An upload that takes longer than the grace is taken too, and fails.',
    )
    .option('--grace <duration>', "what is younger stays, such as '12 hours'", '24 hours')
    .option('--dry-run', 'show what would go, and remove nothing')
    .addHelpText(
      'after',
      examples('perdure artifacts gc --dry-run', "perdure artifacts gc --grace '7 days' --json"),
    )
    .action(async (options: GcOptions, command: Command) =>
      start(command, async (session) => (await commands()).collectArtifacts(session, options)),
    );
}
