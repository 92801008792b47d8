/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Words for a shell: see complete.h
 */

#include <stdio.h>
#include <string.h>

#include "cli/complete.h"
#include "symbolize/field.h"

#define MAX_VALUES  4

static struct {
    const char *word;           /* the last one; NULL: nothing is completed */
    struct {
        const char *what;
        const char *(*name)(unsigned i);
    } values[MAX_VALUES];
    unsigned n;
} completion;

void cli_complete_begin(int argc, char **argv)
{
    completion.word = argv[argc - 1];
    cli_complete_value("EXPRESSION", field_name);
}

bool cli_completes(void)
{
    return completion.word;
}

void cli_complete_value(const char *what, const char *(*name)(unsigned i))
{
    if (!cli_completes()) {
        return;
    }
    g_assert(completion.n < MAX_VALUES);
    completion.values[completion.n].what = what;
    completion.values[completion.n++].name = name;
}

/* Prints a word if it begins with another one. */
static void offer(const char *begun, const char *before, const char *name,
                  const char *after, const char *meaning)
{
    g_autofree char *word = g_strconcat(before, name, after, NULL);

    if (g_str_has_prefix(word, begun)) {
        cli_printf("%s", word);
        if (meaning) {
            putchar('\t');
            cli_printf("%s", meaning);
        }
        putchar('\n');
    }
}

void cli_complete_commands(const struct cli_command *commands, unsigned n,
                           const char *word)
{
    for (unsigned i = 0; i < n; i++) {
        offer(word, "", commands[i].name, "", commands[i].summary);
    }
    offer(word, "", "--help", "", "show the commands");
}

static bool takes_argument(const GOptionEntry *e)
{
    return e->arg != G_OPTION_ARG_NONE;
}

static const GOptionEntry *find_long(const GOptionEntry *entries,
                                     const char *name, size_t len)
{
    for (; entries->long_name; entries++) {
        if (strlen(entries->long_name) == len &&
            !memcmp(entries->long_name, name, len)) {
            return entries;
        }
    }
    return NULL;
}

/*
 * The option whose argument the next word is: "--name", or "-x", which can
 * follow others as in "-gs".  NULL if there is none.
 */
static const GOptionEntry *awaits_argument(const GOptionEntry *entries,
                                           const char *word)
{
    const GOptionEntry *e;

    if (g_str_has_prefix(word, "--")) {
        e = find_long(entries, word + 2, strlen(word + 2));
        return e && takes_argument(e) ? e : NULL;
    }
    for (e = entries; *word == '-' && word[1] && e->long_name; e++) {
        if (e->short_name == word[strlen(word) - 1] && takes_argument(e)) {
            return e;
        }
    }
    return NULL;
}

static void offer_values(const GOptionEntry *e, const char *begun)
{
    const char *what = e->arg_description ?: "";
    /* What is before the last word of a list or an expression stays. */
    size_t len = strlen(begun);
    g_autofree char *before = NULL;

    if (e->arg == G_OPTION_ARG_FILENAME ||
        e->arg == G_OPTION_ARG_FILENAME_ARRAY) {
        cli_printf("%s\n", !strcmp(what, "DIR") || !strcmp(what, "FOLDER") ?
                   ":folders" : ":files");
        return;
    }
    while (len && !strchr(",&|!( ", begun[len - 1])) {
        len--;
    }
    before = g_strndup(begun, len);
    for (unsigned i = 0; i < completion.n; i++) {
        const char *name;

        if (strcmp(completion.values[i].what, what)) {
            continue;
        }
        for (unsigned k = 0; (name = completion.values[i].name(k)); k++) {
            offer(begun, before, name, "", NULL);
        }
    }
}

static void offer_options(const GOptionEntry *e, const char *begun)
{
    for (; e->long_name; e++) {
        if (!(e->flags & G_OPTION_FLAG_HIDDEN)) {
            offer(begun, "--", e->long_name, takes_argument(e) ? "=" : "",
                  e->description);
        }
    }
    offer(begun, "--", "help", "", "show a summary of the options");
}

static void offer_operands(int argc, char **argv, const GOptionEntry *entries,
                           const char *usage)
{
    const char *uri = "";

    if (strstr(usage, "DOMAIN") || strstr(usage, "GUEST")) {
        for (int i = 1; i < argc - 1; i++) {
            const GOptionEntry *e = awaits_argument(entries, argv[i]);

            if (e && !strcmp(e->long_name, "connect")) {
                uri = argv[i + 1];
            } else if (g_str_has_prefix(argv[i], "--connect=")) {
                uri = argv[i] + strlen("--connect=");
            }
        }
        cli_printf(":domains %s\n", uri);
    }
    if (strstr(usage, "FILE")) {
        puts(":files");
    } else if (strstr(usage, "FOLDER")) {
        puts(":folders");
    }
}

void cli_complete_arguments(int argc, char **argv, const GOptionEntry *entries,
                            const char *usage)
{
    const char *word = argv[argc - 1], *value = strchr(word, '=');
    const GOptionEntry *e = NULL;
    bool options = true;

    if (word != completion.word) {
        /* "--" itself, or an argument of another program after it */
        if (!strcmp(completion.word, "--")) {
            offer_options(entries, "--");
        } else {
            puts(":files");
        }
        return;
    }
    for (int i = 1; i < argc - 1; i++) {
        options &= strcmp(argv[i], "--") != 0;
    }
    if (options && argc > 2) {
        e = awaits_argument(entries, argv[argc - 2]);
    }
    if (e) {
        offer_values(e, word);
    } else if (options && value && g_str_has_prefix(word, "--")) {
        e = find_long(entries, word + 2, value - word - 2);
        if (e && takes_argument(e)) {
            offer_values(e, value + 1);
        }
    } else if (options && *word == '-') {
        offer_options(entries, word);
    } else {
        offer_operands(argc, argv, entries, usage);
    }
}
