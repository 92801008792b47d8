/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parsing command lines
 */

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

void cli_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("backtrail: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

void cli_print_json(JsonObject *root)
{
    g_autoptr(JsonNode) node = json_node_new(JSON_NODE_OBJECT);
    g_autofree char *text = NULL;

    json_node_take_object(node, root);
    text = json_to_string(node, TRUE);
    puts(text);
}

bool cli_parse(int *argc, char ***argv, const GOptionEntry *entries,
               int operands, const char *usage, const char *summary)
{
    GOptionContext *context = g_option_context_new(usage);
    g_autoptr(GError) error = NULL;
    int least = operands == CLI_OPTIONAL ? 0 : abs(operands);
    int most = operands == CLI_OPTIONAL ? 1 :
               operands < 0 ? INT_MAX : operands;
    bool ok;

    g_option_context_set_summary(context, summary);
    g_option_context_add_main_entries(context, entries, NULL);
    ok = g_option_context_parse(context, argc, argv, &error);
    g_option_context_free(context);
    if (!ok) {
        cli_error("%s; see %s --help", error->message, g_get_prgname());
        return false;
    }
    /* What follows "--" is left in place with it. */
    if (*argc > 1 && !strcmp((*argv)[1], "--")) {
        (*argv)[1] = (*argv)[0];
        (*argv)++;
        (*argc)--;
    }
    if (*argc - 1 < least || *argc - 1 > most) {
        cli_error("%s: %s; see %s --help", g_get_prgname(),
                  *argc - 1 < least ? "an argument is missing" :
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

/* An unsigned number at the start of @text; no sign, no blanks. */
static bool get_u64(const char *text, const char **end, uint64_t *value)
{
    if (!g_ascii_isdigit(*text)) {
        return false;
    }
    errno = 0;
    *value = g_ascii_strtoull(text, (char **)end,
                              g_ascii_strncasecmp(text, "0x", 2) ? 10 : 16);
    return !errno;
}

bool cli_parse_u64(const char *option, const char *text, uint64_t *value)
{
    const char *end;

    return (get_u64(text, &end, value) && !*end) ||
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
    static const char units[] = "KMGT";
    const char *end, *unit;
    unsigned shift = 0;

    if (!get_u64(text, &end, value)) {
        return bad_value(option, text, "a size");
    }
    if (*end && (unit = strchr(units, g_ascii_toupper(*end)))) {
        shift = 10 * (unit - units + 1);
        end++;
    }
    if (*end || *value > UINT64_MAX >> shift) {
        return bad_value(option, text, "a size such as 512K or 2M");
    }
    *value <<= shift;
    return true;
}

/* Seconds with a fraction to nanoseconds, without rounding */
static bool get_seconds(const char *text, const char **end, uint64_t *ns)
{
    uint64_t seconds, unit = 1000000000;

    if (!get_u64(text, end, &seconds) || seconds > UINT64_MAX / unit - 1) {
        return false;
    }
    *ns = seconds * unit;
    if (**end == '.' && g_ascii_isdigit((*end)[1])) {
        for ((*end)++; g_ascii_isdigit(**end); (*end)++) {
            unit /= 10;
            *ns += (**end - '0') * unit;
        }
    }
    return true;
}

bool cli_parse_duration(const char *option, const char *text, uint64_t *ns)
{
    static const struct {
        const char *name;
        uint64_t multiply, divide;
    } units[] = {
        { "", 1, 1 }, { "s", 1, 1 }, { "ms", 1, 1000 }, { "min", 60, 1 },
        { "h", 3600, 1 },
    };
    const char *end;
    unsigned i;

    if (get_seconds(text, &end, ns)) {
        for (i = 0; i < G_N_ELEMENTS(units); i++) {
            if (!strcmp(end, units[i].name) &&
                *ns <= UINT64_MAX / units[i].multiply) {
                *ns = *ns * units[i].multiply / units[i].divide;
                return true;
            }
        }
    }
    return bad_value(option, text, "a time such as 3, 2.5s, 500ms or 10min");
}

bool cli_parse_vcpus(const char *option, const char *text, bool *vcpus)
{
    const char *p = text;

    memset(vcpus, 0, BTRAIL_MAX_VCPUS * sizeof(*vcpus));
    for (;;) {
        uint64_t first, last;

        if (!get_u64(p, &p, &first)) {
            break;
        }
        last = first;
        if (*p == '-' && !get_u64(p + 1, &p, &last)) {
            break;
        }
        if (last >= BTRAIL_MAX_VCPUS || first > last) {
            break;
        }
        memset(vcpus + first, true, (last - first + 1) * sizeof(*vcpus));
        if (!*p) {
            return true;
        }
        if (*p++ != ',') {
            break;
        }
    }
    return bad_value(option, text, "a list of vCPUs such as 0,2-3");
}

static bool parse_range(const char *option, const char *text,
                        bool (*get)(const char *, const char **, uint64_t *),
                        struct cli_range *range)
{
    const char *p = text;

    range->begin = 0;
    range->end = UINT64_MAX;
    if (!g_str_has_prefix(p, "..") && !get(p, &p, &range->begin)) {
        return bad_value(option, text, "a range A..B");
    }
    if (!g_str_has_prefix(p, "..")) {
        return bad_value(option, text, "a range A..B");
    }
    p += 2;
    if ((*p && (!get(p, &p, &range->end) || *p)) ||
        range->begin > range->end) {
        return bad_value(option, text, "a range A..B with A below B");
    }
    return true;
}

bool cli_parse_range(const char *option, const char *text,
                     struct cli_range *range)
{
    return parse_range(option, text, get_u64, range);
}

bool cli_parse_time_range(const char *option, const char *text,
                          struct cli_range *range)
{
    return parse_range(option, text, get_seconds, range);
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
    unsigned i;

    for (i = 0; cr3s && i < cr3s->len; i++) {
        if (!((g_array_index(cr3s, uint64_t, i) ^ cr3) & CLI_CR3_MASK)) {
            return true;
        }
    }
    return !cr3s;
}
