/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest's sessions want together: see wanted.h
 */

#include <string.h>

#include "backtrail/words.h"
#include "util/sort.h"
#include "service/wanted.h"

static void drop(GArray **array)
{
    if (*array) {
        g_array_unref(*array);
        *array = NULL;
    }
}

static void add(struct btrail_wanted *w, const struct btrail_command *c)
{
    unsigned i;

    if (!c->vcpus) {
        drop(&w->vcpus);
    } else if (w->vcpus) {
        g_array_append_vals(w->vcpus, c->vcpus->data, c->vcpus->len);
    }
    /* The address spaces of a process are not known before it is found. */
    if (!c->cr3 || c->processes) {
        drop(&w->cr3);
    }
    for (i = 0; w->cr3 && i < c->cr3->len; i++) {
        uint64_t root = g_array_index(c->cr3, uint64_t, i) & BTRAIL_CR3_ROOT;

        g_array_append_val(w->cr3, root);
    }
    w->privilege |= c->privilege;
    if (c->overflow == BTRAIL_OVERFLOW_PAUSE) {
        w->overflow = BTRAIL_OVERFLOW_PAUSE;
    }
}

struct btrail_wanted *btrail_wanted_new(struct btrail_command *const *commands,
                                        unsigned n)
{
    struct btrail_wanted *w = g_new0(struct btrail_wanted, 1);
    unsigned i;

    w->vcpus = g_array_new(FALSE, FALSE, sizeof(unsigned));
    w->cr3 = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    w->overflow = BTRAIL_OVERFLOW_DROP;
    for (i = 0; i < n; i++) {
        add(w, commands[i]);
    }
    if (w->vcpus) {
        btrail_sort_vcpus(w->vcpus);
    }
    if (w->cr3) {
        btrail_sort_cr3(w->cr3);
        if (w->cr3->len > BTRAIL_COMMAND_MAX_CR3) {
            drop(&w->cr3);
        }
    }
    return w;
}

void btrail_wanted_free(struct btrail_wanted *w)
{
    if (w) {
        drop(&w->vcpus);
        drop(&w->cr3);
        g_free(w);
    }
}

static bool equal_arrays(const GArray *a, const GArray *b, size_t size)
{
    if (!a || !b) {
        return a == b;
    }
    return a->len == b->len && !memcmp(a->data, b->data, a->len * size);
}

bool btrail_wanted_equal(const struct btrail_wanted *a,
                         const struct btrail_wanted *b)
{
    return equal_arrays(a->vcpus, b->vcpus, sizeof(unsigned)) &&
           equal_arrays(a->cr3, b->cr3, sizeof(uint64_t)) &&
           a->privilege == b->privilege && a->overflow == b->overflow;
}

void btrail_wanted_put(const struct btrail_wanted *w, JsonObject *arguments)
{
    JsonArray *array;
    unsigned i;

    if (w->vcpus) {
        array = json_array_new();
        for (i = 0; i < w->vcpus->len; i++) {
            json_array_add_int_element(array, g_array_index(w->vcpus, unsigned,
                                                            i));
        }
        json_object_set_array_member(arguments, "vcpus", array);
    }
    if (w->cr3) {
        array = json_array_new();
        for (i = 0; i < w->cr3->len; i++) {
            json_array_add_int_element(array, g_array_index(w->cr3, uint64_t,
                                                            i));
        }
        json_object_set_array_member(arguments, "cr3", array);
    }
    json_object_set_string_member(arguments, "privilege",
                                  btrail_privilege_name(w->privilege));
    json_object_set_string_member(arguments, "overflow",
                                  btrail_overflow_name(w->overflow));
}
