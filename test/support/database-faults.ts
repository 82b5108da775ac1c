import type { Database } from '../../src/postgres/database.ts';

export type RefusedWrites = {
  /** How many statements were refused so far. */
  refused(): Promise<number>;
  stop(): Promise<void>;
};

/**
 * Makes Postgres itself refuse the next statement that leaves a row of `table` for which `condition` holds, as a
 * server does that shuts down: the statement is rolled back and the connection's error is what it would be then.
 * @param times how many statements are refused. Default 1.
 */
export async function refuseWrites(
  database: Database,
  table: string,
  condition: string,
  times = 1,
): Promise<RefusedWrites> {
  const name = `fault_${Math.random().toString(36).slice(2)}`;
  const at = (what: string) => database.table(what);
  // A sequence keeps its number when the transaction around it is rolled back.
  await database.query(`CREATE SEQUENCE ${at(name)} MINVALUE 0 START 0`);
  await database.query(
    `CREATE FUNCTION ${at(name)}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF nextval('${at(name)}') < ${times} THEN
         RAISE EXCEPTION 'terminating connection due to administrator command' USING ERRCODE = '57P01';
       END IF;
       RETURN NEW;
     END $$`,
  );
  await database.query(
    `CREATE TRIGGER ${name} BEFORE INSERT OR UPDATE ON ${at(table)} FOR EACH ROW WHEN (${condition}) EXECUTE FUNCTION ${at(name)}()`,
  );
  return {
    refused: async () => {
      const { rows } = await database.query<{ refused: number }>(
        `SELECT CASE WHEN is_called THEN least(last_value + 1, ${times})::int ELSE 0 END AS refused FROM ${at(name)}`,
      );
      return rows[0]?.refused ?? 0;
    },
    stop: async () => {
      await database.query(`DROP TRIGGER ${name} ON ${at(table)}`);
    },
  };
}
