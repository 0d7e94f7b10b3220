// Shared by the clients: command-line options, and commands as lines of JSON.
//
// A command is {"do": NAME, "id": ANY, ...}. Its reply is {"done": NAME, "id": ANY, "result": VALUE}, or the same with "error" in place
// of "result". Events are lines with "event". The process exits when its standard input ends.
'use strict';

/** Reads `--name value` pairs over the defaults. */
exports.options = defaults => {
  const values = { ...defaults };
  const words = process.argv.slice(2);
  for (let index = 0; index < words.length; index += 2) {
    const name = words[index].replace(/^--/, '');
    if (!(name in defaults) || index + 1 === words.length) {
      console.error(`Invalid option ${words[index]}; the options are ${Object.keys(defaults).map(key => `--${key} VALUE`).join(' ')}`);
      process.exit(2);
    }
    values[name] = words[index + 1];
  }
  return values;
};

/** Prints one line of JSON. */
const print = (exports.print = value => process.stdout.write(`${JSON.stringify(value)}\n`));

/** Runs the commands that arrive on standard input. Each may return a promise. */
exports.run = commands => {
  const reply = async line => {
    const command = JSON.parse(line);
    const { do: name, id } = command;
    try {
      if (!Object.hasOwn(commands, name)) throw new Error(`Unknown command; the commands are ${Object.keys(commands).join(', ')}`);
      print({ done: name, id, result: (await commands[name](command)) ?? null });
    } catch (error) {
      print({ done: name, id, error: error?.message ?? String(error) });
    }
  };
  const input = require('readline').createInterface({ input: process.stdin });
  input.on('line', line => line.trim() && reply(line).catch(error => print({ error: error.message })));
  input.on('close', () => process.exit(0));
};
