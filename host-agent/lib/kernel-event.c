/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Kernels, as KERNEL events name them
 */

#include <string.h>

#include "backtrail/trace.h"

int btrail_event_kernel(const struct btrail_event *event,
                        struct btrail_kernel *kernel)
{
    if (!event || !kernel || event->type != BTRAIL_EVENT_KERNEL) {
        return -BTRAIL_ERR_ARGUMENT;
    }
    memset(kernel, 0, sizeof(*kernel));
    kernel->known = !(event->reason & BTRAIL_KERNEL_UNKNOWN);
    if (kernel->known) {
        kernel->nested = event->reason & BTRAIL_KERNEL_NESTED;
        /* A number that no sideband can have is of no kernel. */
        kernel->number = event->data[0] <= UINT16_MAX ?
                         (uint16_t)event->data[0] : 0;
        kernel->nested_root = event->data[1];
    }
    return 0;
}
