/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands by their names
 */

#include <string.h>

#include "cli/complete.h"
#include "util/closest.h"

void cli_print_commands(FILE *out, const struct cli_command *commands,
                        unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (commands[i].heading) {
            cli_fprintf(out, "\n%s:\n", commands[i].heading);
        }
        cli_fprintf(out, "  %-12s%s\n", commands[i].name,
                    commands[i].summary);
    }
}

int cli_run_command(const char *group, const struct cli_command *commands,
                    unsigned n, int argc, char **argv)
{
    struct closest closest = closest_to(argv[1]);
    g_autofree char *hint = NULL;

    if (cli_completes() && argc == 2) {
        cli_complete_commands(commands, n, argv[1]);
        return CLI_OK;
    }
    for (unsigned i = 0; i < n; i++) {
        if (!strcmp(commands[i].name, argv[1])) {
            g_autofree char *program = g_strdup_printf("backtrail %s%s", group,
                                                       argv[1]);

            argv[1] = program;
            g_set_prgname(program);
            return commands[i].run(argc - 1, argv + 1);
        }
        closest_offer(&closest, commands[i].name);
    }
    hint = closest_hint(&closest);
    cli_error("unknown command '%s%s'%s; see backtrail %s--help", group,
              argv[1], hint, group);
    return CLI_USAGE;
}
