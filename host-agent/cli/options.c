/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Command lines: parsing options and their values, output, and errors
 */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/complete.h"
#include "util/closest.h"
#include "util/json.h"
#include "util/quote.h"

void cli_print_json(JsonObject *root)
{
    g_autofree char *text = btrail_json_text(root, TRUE);

    puts(text);
    json_object_unref(root);
}

void cli_print_json_line(JsonObject *root)
{
    g_autofree char *text = btrail_json_text(root, FALSE);

    puts(text);
    json_object_unref(root);
}

void cli_put_json_string(FILE *out, const char *text)
{
    g_autoptr(GString) quoted = g_string_new(NULL);

    btrail_quote_json(quoted, text, BTRAIL_QUOTE_STRING);
    fprintf(out, "\"%s\"", quoted->str);
}

void cli_json_copied(JsonObject *o, const struct btrail_merge_result *c)
{
    btrail_json_add(o, "U:chunks", c->chunks, "U:records", c->records,
                    "U:bad_chunks", c->bad_chunks, "U:gaps", c->gaps,
                    "U:lost", c->lost, "b:lost_unknown", c->lost_unknown,
                    "u:ends", c->ends, NULL);
}

/* What an unknown option may be meant to be; see closest_hint() */
static char *option_hint(const GError *error, const GOptionEntry *entries)
{
    const char *word = strstr(error->message, "--");
    struct closest closest;
    g_autofree char *name = NULL;

    if (!word || !g_error_matches(error, G_OPTION_ERROR,
                                  G_OPTION_ERROR_UNKNOWN_OPTION)) {
        return g_strdup("");
    }
    name = g_strndup(word + 2, strcspn(word + 2, "="));
    closest = closest_to(name);
    for (; entries->long_name; entries++) {
        closest_offer(&closest, entries->long_name);
    }
    return closest_hint(&closest);
}

bool cli_parse(int *argc, char ***argv, const GOptionEntry *entries,
               int operands, const char *usage, const char *summary)
{
    g_autoptr(GOptionContext) context = g_option_context_new(usage);
    g_autoptr(GError) error = NULL;
    g_autofree char *hint = NULL;
    int least = operands == CLI_OPTIONAL || operands == CLI_ANY ? 0 :
                abs(operands);
    int most = operands == CLI_OPTIONAL ? 1 :
               operands < 0 ? INT_MAX : operands;

    if (cli_completes()) {
        cli_complete_arguments(*argc, *argv, entries, usage);
        return false;
    }
    g_option_context_set_summary(context, summary);
    g_option_context_add_main_entries(context, entries, NULL);
    if (!g_option_context_parse(context, argc, argv, &error)) {
        hint = option_hint(error, entries);
        cli_error("%s%s; see %s --help", error->message, hint,
                  g_get_prgname());
        return false;
    }
    /* GLib leaves a "--" in place. */
    if (*argc > 1 && !strcmp((*argv)[1], "--")) {
        (*argv)[1] = (*argv)[0];
        (*argv)++;
        (*argc)--;
    }
    if (*argc - 1 < least || *argc - 1 > most) {
        cli_error("%s: %s; see %s --help", g_get_prgname(),
                  *argc - 1 < least ? "missing argument" :
                  "too many arguments", g_get_prgname());
        return false;
    }
    return true;
}

static bool bad_value(const char *option, const char *text, const char *want)
{
    cli_error("%s: '%s' is not %s", option, text, want);
    return false;
}

bool cli_parse_u64(const char *option, const char *text, uint64_t *value)
{
    return parse_text_number(text, NULL, value) ||
           bad_value(option, text, "a number");
}

bool cli_parse_threads(const char *text, unsigned *threads)
{
    uint64_t n = btrail_parallel_threads();

    if (text && !cli_parse_u64("--threads", text, &n)) {
        return false;
    }
    if (!n || n > BTRAIL_MAX_THREADS) {
        cli_error("--threads: %s is not between 1 and %d", text,
                  BTRAIL_MAX_THREADS);
        return false;
    }
    *threads = n;
    return true;
}

bool cli_parse_size(const char *option, const char *text, uint64_t *value)
{
    return parse_text_size(text, NULL, value) ||
           bad_value(option, text, "a size such as 512K or 2M");
}

bool cli_parse_duration(const char *option, const char *text, uint64_t *ns)
{
    return parse_text_time(text, NULL, ns) ||
           bad_value(option, text, "a time such as 3, 2.5s, 500ms or 10min");
}

bool cli_parse_vcpus(const char *option, const char *text, bool *vcpus)
{
    return parse_text_list(text, vcpus, BTRAIL_MAX_VCPUS) ||
           bad_value(option, text, "a list of vCPUs such as 0,2-3");
}

bool cli_parse_range(const char *option, const char *text,
                     struct range *range)
{
    return parse_text_range(text, parse_text_number, range) ||
           bad_value(option, text, "a range A..B with A below B");
}

bool cli_parse_time_range(const char *option, const char *text,
                          struct range *range)
{
    return parse_text_range(text, parse_text_time, range) ||
           bad_value(option, text, "a range A..B of times with A below B, such as "
                     "1.5..2 or 200ms..1s; without a unit, they are seconds");
}

bool cli_parse_cr3s(char **texts, GArray **cr3s)
{
    *cr3s = NULL;
    for (; texts && *texts; texts++) {
        uint64_t cr3;

        if (!cli_parse_u64("--cr3", *texts, &cr3)) {
            g_clear_pointer(cr3s, g_array_unref);
            return false;
        }
        if (!*cr3s) {
            *cr3s = g_array_new(FALSE, FALSE, sizeof(cr3));
        }
        g_array_append_val(*cr3s, cr3);
    }
    return true;
}

bool cli_cr3_matches(const GArray *cr3s, uint64_t cr3)
{
    for (unsigned i = 0; cr3s && i < cr3s->len; i++) {
        if (btrail_cr3_is(cr3, g_array_index(cr3s, uint64_t, i))) {
            return true;
        }
    }
    return !cr3s;
}
