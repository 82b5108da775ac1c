import { bundleWorkflowCode, type BundleOptions, type Logger } from '@temporalio/worker';

export type WorkflowBundle = {
  code: string;
  /** Every module that got in, by its path; one of Node's own as `node:fs`. */
  modules: string[];
};

/** Bundles workflow code as a worker does, and tells what got in. */
export async function bundleWorkflows(workflowsPath: string): Promise<WorkflowBundle> {
  const modules: string[] = [];
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    logger: quiet,
    webpackConfigHook: (config) => ({ ...config, plugins: [...(config.plugins ?? []), listing(modules)] }),
  });
  return { code, modules };
}

type Plugin = NonNullable<ReturnType<NonNullable<BundleOptions['webpackConfigHook']>>['plugins']>[number];

function listing(modules: string[]): Plugin {
  return {
    apply(compiler) {
      compiler.hooks.done.tap('list modules', ({ compilation }) => {
        for (const module of compilation.modules) {
          modules.push(module.nameForCondition() ?? module.identifier().replace(/^external /, ''));
        }
      });
    },
  };
}

const nothing = () => undefined;
const quiet: Logger = {
  log: nothing,
  trace: nothing,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
};

/** The npm package a module belongs to, or nothing for the project's own code. */
export function packageOf(module: string): string | undefined {
  return /.*[\\/]node_modules[\\/]((?:@[^\\/]+[\\/])?[^\\/]+)/.exec(module)?.[1]?.replace('\\', '/');
}
