/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Commands of gdb's "monitor": see monitor.h
 */

#include <string.h>

#include "gdb/monitor.h"

/**
 * struct monitor_answer - what a search has come to; @then bytes of what
 * remains follow, and then the text
 */
struct monitor_answer {
    bool ok;
    size_t then;
};

char *monitor_split(const char *line, const char **argument)
{
    char *name = g_strstrip(g_strdup(line));
    char *end = name + strcspn(name, " \t");

    *argument = end;
    if (*end) {
        *end = '\0';
        *argument = end + 1 + strspn(end + 1, " \t");
    }
    return name;
}

const struct monitor_command *
monitor_find(const struct monitor_command *table, const char *name)
{
    for (; table->name; table++) {
        if (!strcmp(name, table->name)) {
            return table;
        }
    }
    return NULL;
}

char *monitor_help(const struct monitor_command *table)
{
    GString *text = g_string_new(NULL);

    for (; table->name; table++) {
        g_string_append_printf(text, "%-12s %s\n", table->name, table->usage);
    }
    return g_string_free(text, FALSE);
}

bool monitor_searches(const struct monitor_command *c, const char *argument)
{
    return c->search && (!c->searches || c->searches(argument));
}

void monitor_search(void *search, GByteArray *answer)
{
    const struct monitor_search *s = search;
    g_autoptr(GByteArray) then = g_byte_array_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *text = s->command->search(s->target, s->argument,
                                               &error);
    const char *said = text ? text : error->message;
    struct monitor_answer a = { .ok = text };

    s->remains(s->target, then);
    a.then = then->len;
    g_byte_array_append(answer, (const void *)&a, sizeof(a));
    g_byte_array_append(answer, then->data, then->len);
    g_byte_array_append(answer, (const void *)said, strlen(said) + 1);
}

char *monitor_found(const GByteArray *answer, const void **then, size_t *n,
                    GError **error)
{
    struct monitor_answer a = { false };
    const char *text;

    *n = 0;
    if (answer && answer->len > sizeof(a)) {
        memcpy(&a, answer->data, sizeof(a));
    }
    /* It is of another process, which a trace may have led astray. */
    if (!answer || answer->len <= sizeof(a) ||
        a.then >= answer->len - sizeof(a) || answer->data[answer->len - 1]) {
        agent_fail(error, AGENT_ERROR_COMMAND,
                   "this takes too long, or too much memory");
        return NULL;
    }
    *then = answer->data + sizeof(a);
    *n = a.then;
    text = (const char *)*then + a.then;
    if (!a.ok) {
        agent_fail(error, AGENT_ERROR_COMMAND, "%s", text);
        return NULL;
    }
    return g_strdup(text);
}
