/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: what a person looks for in a trace
 *
 * The input is the text of `backtrail find`: a function, a place, an event.
 */

#include "fuzz.h"
#include "find/event.h"

/* Nobody writes longer ones. */
#define MAX_TEXT    4096

static void check(const struct find_event *what)
{
    const struct find_place *p = &what->place;
    bool named = p->name && (*p->name || p->length);

    switch (what->kind) {
    case FIND_EVENT_FUNCTION:
        fuzz_require(p->kind == FIND_PLACE_FUNCTION && named);
        break;
    case FIND_EVENT_MARK:
        fuzz_require(p->kind == FIND_PLACE_MARK && p->mark.name && !named);
        break;
    case FIND_EVENT_PLACE:
        fuzz_require(named == (p->kind >= FIND_PLACE_FUNCTION &&
                               p->kind != FIND_PLACE_MARK));
        fuzz_require(!p->mark.name == (p->kind != FIND_PLACE_MARK));
        fuzz_require(!p->length == (p->kind != FIND_PLACE_OUTPUT));
        fuzz_require(!p->process || p->kind == FIND_PLACE_FUNCTION);
        fuzz_require(!what->name);
        break;
    case FIND_EVENT_INSTRUCTION:
        fuzz_require(!what->name && !p->name && !p->process);
        break;
    default:
        fuzz_require(!what->name || *what->name);
        break;
    }
}

int fuzz_input(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data,
                                      MIN(size, MAX_TEXT));
    g_autoptr(GError) error = NULL;
    struct find_event what;
    bool ok = find_event_parse(text, &what, &error);

    fuzz_require(ok == !error);
    if (ok) {
        fuzz_accepted();
        check(&what);
    }
    find_event_clear(&what);
    return 0;
}
