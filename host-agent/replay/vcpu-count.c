/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many vCPUs a machine has: see vcpu-count.h
 */

#include <string.h>

#include "replay/option-list.h"
#include "replay/vcpu-count.h"
#include "util/parse.h"

/* QEMU checks that the number is the product of those of the topology. */
unsigned vcpu_count_parse(const char *smp)
{
    static const char *const levels[] = {
        "sockets", "dies", "modules", "clusters", "cores", "threads", NULL
    };
    g_autoptr(GPtrArray) list = option_list_parse(smp, "cpus");
    const char *cpus = option_list_get(list, "cpus");
    const char *max = option_list_get(list, "maxcpus");
    uint64_t number, product = 1, n = 0;

    for (unsigned i = 0; i < list->len; i++) {
        const struct option_pair *p = g_ptr_array_index(list, i);

        if (!p->value || !parse_text_number(p->value, NULL, &number) ||
            !number || number > VCPU_COUNT_MAX) {
            return 0;
        }
        if (g_strv_contains(levels, p->key)) {
            product *= number;
        } else if (p->value != cpus && p->value != max) {
            return 0;
        }
        if (product > VCPU_COUNT_MAX) {
            return 0;
        }
    }
    if (cpus || max) {
        parse_text_number(cpus ? cpus : max, NULL, &n);
        parse_text_number(max ? max : cpus, NULL, &number);
        return n == number ? n : 0;
    }
    return product;
}

unsigned vcpu_count(char *const *arguments)
{
    unsigned count = 1;

    for (; *arguments; arguments++) {
        if (!strcmp(*arguments, "-smp") && arguments[1]) {
            count = vcpu_count_parse(*++arguments);
        }
    }
    return MAX(count, 1);
}
