/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The filter of a guest's capture: see capture-filter.h
 */

#include "backtrail/words.h"
#include "service/capture-filter.h"
#include "util/json.h"
#include "util/sort.h"

JsonObject *capture_filter(struct service_command *const *commands,
                           unsigned n)
{
    g_autoptr(GArray) vcpus = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    g_autoptr(GArray) cr3s = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    unsigned privilege = 0, overflow = BTRAIL_OVERFLOW_DROP;
    bool all_vcpus = false, all_cr3s = false;
    JsonObject *filter = json_object_new();
    JsonArray *array;

    for (unsigned i = 0; i < n; i++) {
        const struct session_filter *f = &commands[i]->filter;

        all_vcpus |= !f->n_vcpus;
        g_array_append_vals(vcpus, f->vcpus, f->n_vcpus);
        /* The address spaces of a process are not known before it is found. */
        all_cr3s |= !f->n_cr3s || f->processes;
        for (unsigned k = 0; k < f->n_cr3s; k++) {
            /* Flags, whatever the paging mode */
            uint64_t cr3 = f->cr3s[k] & ~(uint64_t)31;

            g_array_append_val(cr3s, cr3);
        }
        privilege |= commands[i]->privilege;
        if (commands[i]->overflow == BTRAIL_OVERFLOW_PAUSE) {
            overflow = BTRAIL_OVERFLOW_PAUSE;
        }
    }
    btrail_sort_vcpus(vcpus);
    btrail_sort_u64(cr3s);
    if (!all_vcpus) {
        array = json_array_new();
        for (unsigned i = 0; i < vcpus->len; i++) {
            json_array_add_int_element(array,
                                       g_array_index(vcpus, uint32_t, i));
        }
        json_object_set_array_member(filter, "vcpus", array);
    }
    if (!all_cr3s && cr3s->len <= COMMAND_MAX_CR3) {
        array = json_array_new();
        for (unsigned i = 0; i < cr3s->len; i++) {
            json_array_add_int_element(array,
                                       g_array_index(cr3s, uint64_t, i));
        }
        json_object_set_array_member(filter, "cr3", array);
    }
    btrail_json_add(filter, "s:privilege", btrail_privilege_name(privilege),
                    "s:overflow", btrail_overflow_name(overflow), NULL);
    return filter;
}
