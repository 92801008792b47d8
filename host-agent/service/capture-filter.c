/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The filter of a guest's capture: see capture-filter.h
 */

#include <string.h>

#include "backtrail/words.h"
#include "util/sort.h"
#include "service/capture-filter.h"

static void drop_array(GArray **array)
{
    if (*array) {
        g_array_unref(*array);
        *array = NULL;
    }
}

static void add_command(struct btrail_capture_filter *f,
                        const struct btrail_command *c)
{
    unsigned i;

    if (!c->filter.n_vcpus) {
        drop_array(&f->vcpus);
    } else if (f->vcpus) {
        g_array_append_vals(f->vcpus, c->filter.vcpus, c->filter.n_vcpus);
    }
    /* The address spaces of a process are not known before it is found. */
    if (!c->filter.n_cr3s || c->filter.processes) {
        drop_array(&f->cr3);
    }
    for (i = 0; f->cr3 && i < c->filter.n_cr3s; i++) {
        uint64_t root = c->filter.cr3s[i] & BTRAIL_CR3_ROOT;

        g_array_append_val(f->cr3, root);
    }
    f->privilege |= c->privilege;
    if (c->overflow == BTRAIL_OVERFLOW_PAUSE) {
        f->overflow = BTRAIL_OVERFLOW_PAUSE;
    }
}

struct btrail_capture_filter *
btrail_capture_filter_new(struct btrail_command *const *commands, unsigned n)
{
    struct btrail_capture_filter *f = g_new0(struct btrail_capture_filter, 1);
    unsigned i;

    f->vcpus = g_array_new(FALSE, FALSE, sizeof(unsigned));
    f->cr3 = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    f->overflow = BTRAIL_OVERFLOW_DROP;
    for (i = 0; i < n; i++) {
        add_command(f, commands[i]);
    }
    if (f->vcpus) {
        btrail_sort_vcpus(f->vcpus);
    }
    if (f->cr3) {
        btrail_sort_cr3(f->cr3);
        if (f->cr3->len > BTRAIL_COMMAND_MAX_CR3) {
            drop_array(&f->cr3);
        }
    }
    return f;
}

void btrail_capture_filter_free(struct btrail_capture_filter *f)
{
    if (f) {
        drop_array(&f->vcpus);
        drop_array(&f->cr3);
        g_free(f);
    }
}

static bool equal_arrays(const GArray *a, const GArray *b, size_t size)
{
    if (!a || !b) {
        return a == b;
    }
    return a->len == b->len && !memcmp(a->data, b->data, a->len * size);
}

bool btrail_capture_filter_equal(const struct btrail_capture_filter *a,
                                 const struct btrail_capture_filter *b)
{
    return equal_arrays(a->vcpus, b->vcpus, sizeof(unsigned)) &&
           equal_arrays(a->cr3, b->cr3, sizeof(uint64_t)) &&
           a->privilege == b->privilege && a->overflow == b->overflow;
}

void btrail_capture_filter_put(const struct btrail_capture_filter *f,
                               JsonObject *arguments)
{
    JsonArray *array;
    unsigned i;

    if (f->vcpus) {
        array = json_array_new();
        for (i = 0; i < f->vcpus->len; i++) {
            json_array_add_int_element(array, g_array_index(f->vcpus, unsigned,
                                                            i));
        }
        json_object_set_array_member(arguments, "vcpus", array);
    }
    if (f->cr3) {
        array = json_array_new();
        for (i = 0; i < f->cr3->len; i++) {
            json_array_add_int_element(array, g_array_index(f->cr3, uint64_t,
                                                            i));
        }
        json_object_set_array_member(arguments, "cr3", array);
    }
    json_object_set_string_member(arguments, "privilege",
                                  btrail_privilege_name(f->privilege));
    json_object_set_string_member(arguments, "overflow",
                                  btrail_overflow_name(f->overflow));
}
