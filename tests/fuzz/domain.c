/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: the XML of a domain
 *
 * Whatever it is, it is refused, or all that enable does is undone by disable.
 */

#include <string.h>

#include "fuzz.h"
#include "libvirt/tracing.h"

static xmlDoc *parse(const char *text)
{
    xmlDoc *doc = document_parse(text, strlen(text), NULL);

    /* What was written can be read. */
    fuzz_require(doc);
    return doc;
}

static char *enable(const char *text, bool *ok)
{
    static const struct tracing_options options = {
        "/opt/qemu", "/run/a,b", true
    };
    g_autoptr(xmlDoc) doc = parse(text);
    g_autoptr(GPtrArray) changes = NULL;
    g_autoptr(GError) error = NULL;

    *ok = tracing_enable(doc, &options, &changes, &error);
    fuzz_require(*ok == !error && *ok == !!changes);
    return document_text(doc);
}

static char *disable(const char *text, bool *ok)
{
    g_autoptr(xmlDoc) doc = parse(text);
    g_autoptr(GPtrArray) changes = NULL;
    g_autoptr(GError) error = NULL;

    *ok = tracing_disable(doc, &changes, &error);
    fuzz_require(*ok == !error && *ok == !!changes);
    return document_text(doc);
}

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(xmlDoc) doc = document_parse((const char *)data, size,
                                           &error);
    g_autofree char *text = NULL, *again = NULL, *on = NULL, *off = NULL;
    g_autofree char *twice = NULL;
    g_autoptr(xmlDoc) same = NULL;
    struct tracing_state state;
    bool ok, noted;

    fuzz_require(!doc == !!error);
    if (!doc) {
        return 0;
    }
    text = document_text(doc);
    same = parse(text);
    again = document_text(same);
    fuzz_require(!strcmp(text, again));
    if (!tracing_inspect(doc, &state, NULL)) {
        return 0;
    }
    fuzz_accepted();
    noted = state.noted;
    tracing_state_clear(&state);

    on = enable(text, &ok);
    if (ok) {
        twice = enable(on, &ok);
        fuzz_require(ok && !strcmp(on, twice));
        off = disable(on, &ok);
        fuzz_require(ok);
        /* Notes that others made up may change anything. */
        fuzz_require(noted || !strcmp(off, text));
    } else if (noted) {
        off = disable(text, &ok);
    }
    return 0;
}
