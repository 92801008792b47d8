/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Words that can continue a command line, for a shell
 *
 * "backtrail complete WORD..." prints what the last word can be, which may be
 * empty or have begun; the others are those before it on the command line.
 * Each line is a word, and what it means after a tab; or one of
 *
 *   :files          files
 *   :folders        folders
 *   :domains URI    domains of libvirt; without a URI, as for virsh
 *
 * Of "--option=value" the value is printed.  The words come from the tables
 * that the command line is parsed with: the commands run as usual, and in the place
 * of cli_parse() and cli_run_command() the words are printed.
 */

#ifndef BTRAIL_CLI_COMPLETE_H
#define BTRAIL_CLI_COMPLETE_H

#include "cli/cli.h"

/* From now on words are printed and nothing is done. */
void cli_complete_begin(int argc, char **argv);
bool cli_completes(void);

/**
 * cli_complete_value - say what the values of options can be
 * @what: as --help calls them, such as "FORMAT"
 * @name: gives value @i; NULL after the last one
 *
 * Values are words of a list with commas, or of an expression.
 */
void cli_complete_value(const char *what, const char *(*name)(unsigned i));

/* Prints the commands that argv[1] can become. */
void cli_complete_commands(const struct cli_command *commands, unsigned n,
                           const char *word);

/* Prints what the last argument can be; @usage has the operands. */
void cli_complete_arguments(int argc, char **argv, const GOptionEntry *entries,
                            const char *usage);

#endif /* BTRAIL_CLI_COMPLETE_H */
