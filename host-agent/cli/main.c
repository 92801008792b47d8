/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail: the command and its subcommands
 */

#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/complete.h"

static const struct cli_command commands[] = {
    { "record", cmd_record, "trace a guest into a file", "Trace a guest" },
    { "start", cmd_start, "start to trace a guest" },
    { "stop", cmd_stop, "end a session" },
    { "dump", cmd_dump, "write what a flight recorder has kept" },
    { "status", cmd_status, "show the sessions of guests" },

    { "enable", cmd_enable, "let a libvirt domain be traced",
      "Prepare guests of libvirt, and have their traces" },
    { "disable", cmd_disable, "undo what enable did to a domain" },
    { "doctor", cmd_doctor, "check whether guests can be traced" },
    { "list", cmd_list, "list the traces of guests" },
    { "fetch", cmd_fetch, "bring a trace of a guest into a file" },
    { "delete", cmd_delete, "delete traces of a guest" },

    { "info", cmd_info, "show what is in a trace", "See what a guest did" },
    { "report", cmd_report, "show where branches were taken" },
    { "calls", cmd_calls, "print calls and their durations" },
    { "find", cmd_find, "find the moments at which something happened" },
    { "why", cmd_why, "say why something took so long" },
    { "script", cmd_script, "print records and events, one per line" },
    { "annotate", cmd_annotate, "show how often instructions were executed" },
    { "flamegraph", cmd_flamegraph, "draw call stacks for a browser" },
    { "diff", cmd_diff, "find where two runs of the same thing differ" },

    { "gdbserver", cmd_gdbserver, "walk a trace in gdb, also backwards",
      "Go back in time" },
    { "rr", cmd_rr, "record a guest, and replay it to any moment" },

    { "verify", cmd_verify, "check that a trace is complete", "Files" },
    { "repair", cmd_repair, "repair a trace that was cut off or damaged" },
    { "merge", cmd_merge, "merge the files of a trace into one" },
    { "export", cmd_export, "write a trace for other programs" },
};

static void print_help(FILE *out)
{
    cli_fprintf(out, "Usage: backtrail COMMAND [OPTION]... [FILE]\n\n"
                "Trace virtual machines from the host and read the traces.\n\n"
                "Commands:\n");
    cli_print_commands(out, commands, G_N_ELEMENTS(commands));
    cli_fprintf(out, "\n  %-12s%s\n", "help",
                "show this, or the help of a command");
    cli_fprintf(out, "\nSee also backtrail COMMAND --help, and man "
                "backtrail, which has a table of\nwhat answers which "
                "question.\n");
}

/* Prints what the last word can be. */
static int complete(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "help")) {
        if (argc == 3) {
            cli_run_command("", commands, G_N_ELEMENTS(commands), 2, argv + 1);
        }
        return CLI_OK;
    }
    if (argc == 2 && g_str_has_prefix("help", argv[1])) {
        cli_printf("help\tshow the help of a command\n");
    }
    cli_run_command("", commands, G_N_ELEMENTS(commands), argc, argv);
    return CLI_OK;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    char option[] = "--help";
    int status;

    setlocale(LC_ALL, "");
    /*
     * All that is written says what a guest did: it is for the user who runs
     * this, until they say otherwise.  So are files of QEMU and of their own
     * service.
     */
    umask(umask(0077) | 0077);
    if (!name) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(name, "complete") && argc > 2) {
        cli_complete_begin(argc, argv);
        argv[1] = argv[0];
        return complete(argc - 1, argv + 1);
    }
    if (!strcmp(name, "--version")) {
        cli_printf("backtrail %s\n", btrail_version());
        return CLI_OK;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h") ||
        (!strcmp(name, "help") && argc == 2)) {
        print_help(stdout);
        return CLI_OK;
    }
    if (!strcmp(name, "help")) {
        /* As "COMMAND --help" */
        argv[1] = argv[2];
        argv[2] = option;
        argc = 3;
    }
    status = cli_run_command("", commands, G_N_ELEMENTS(commands), argc, argv);
    /* What has no rows needs no header. */
    cli_drop_held();
    return status;
}
