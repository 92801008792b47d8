/*
 * x86 branch trace: a window that the guest maps itself
 *
 * Where KVM must not write into the page tables of the guest, a driver in the
 * guest maps the buffers.  They talk through a file of fw_cfg: QEMU says where
 * the buffers are, and the driver where it has mapped them, or that it is about
 * to unmap them.  When it has said that, no vCPU uses them any more.
 *
 * Whether they are mapped is what KVM verifies; a guest that lies has no trace.
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "hw/nvram/fw_cfg.h"
#include "migration/vmstate.h"
#include "qapi/error.h"
#include "qemu/atomic.h"
#include "qemu/bitops.h"
#include "qemu/units.h"
#include "system/reset.h"
#include "branch-trace-window.h"

#define FILE_NAME           "etc/branch-trace-window"

/* So that what each vCPU has of it is reached by one top-level entry */
#define ALIGNMENT           (2 * MiB)

/* What the guest reads and, of @linear alone, writes; little endian */
typedef struct WindowFile {
    uint64_t linear;
    uint64_t gpa;
    uint64_t size;
} WindowFile;

/**
 * GuestWindow
 * @linear: where the guest has mapped it, as far as that is possible, or 0
 * @gpa:    for VMState
 */
typedef struct GuestWindow {
    WindowFile file;
    uint64_t linear;
    uint64_t gpa;
    const KVMGuestWindowOps *ops;
} GuestWindow;

static GuestWindow window;

uint64_t kvm_guest_window_linear(void)
{
    return qatomic_read(&window.linear);
}

static bool is_possible(uint64_t linear)
{
    return linear >> 63 && QEMU_IS_ALIGNED(linear, ALIGNMENT) &&
           (uint64_t)sextract64(linear, 0, 57) == linear &&
           linear + le64_to_cpu(window.file.size) > linear;
}

/* The guest is about to read it, or has written to it. */
static void fill(void *opaque)
{
    uint64_t size = 0;
    hwaddr gpa = 0;

    if (!window.ops->place(&gpa, &size)) {
        gpa = size = 0;
    }
    window.file.linear = cpu_to_le64(window.linear);
    window.file.gpa = cpu_to_le64(gpa);
    window.file.size = cpu_to_le64(size);
}

static void written(void *opaque, off_t offset, size_t len)
{
    uint64_t linear = le64_to_cpu(window.file.linear);

    fill(NULL);
    if (offset || len != sizeof(linear) || !is_possible(linear)) {
        linear = 0;
    }
    qatomic_set(&window.linear, linear);
    fill(NULL);
    window.ops->moved();
}

static void reset(void *opaque)
{
    qatomic_set(&window.linear, 0);
    window.ops->moved();
}

static int pre_save(void *opaque)
{
    uint64_t size;

    if (!window.ops->place(&window.gpa, &size)) {
        window.gpa = 0;
    }
    return 0;
}

static int post_load(void *opaque, int version_id)
{
    /* Where it is elsewhere, the driver has to be loaded again. */
    fill(NULL);
    if (window.gpa != le64_to_cpu(window.file.gpa) ||
        !is_possible(window.linear)) {
        qatomic_set(&window.linear, 0);
    }
    window.ops->moved();
    return 0;
}

static const VMStateDescription vmstate_window = {
    .name = "branch-trace-window",
    .version_id = 1,
    .minimum_version_id = 1,
    .pre_save = pre_save,
    .post_load = post_load,
    .fields = (const VMStateField[]) {
        VMSTATE_UINT64(linear, GuestWindow),
        VMSTATE_UINT64(gpa, GuestWindow),
        VMSTATE_END_OF_LIST()
    },
};

bool kvm_guest_window_offer(const KVMGuestWindowOps *ops, Error **errp)
{
    FWCfgState *fw_cfg = fw_cfg_find();

    if (!fw_cfg || !fw_cfg->dma_enabled) {
        error_setg(errp, "kvm-guest-window needs a machine whose fw_cfg has "
                   "DMA");
        return false;
    }
    window.ops = ops;
    fw_cfg_add_file_callback(fw_cfg, FILE_NAME, fill, written, NULL,
                             &window.file, sizeof(window.file), false);
    vmstate_register_any(NULL, &vmstate_window, &window);
    qemu_register_reset(reset, NULL);
    return true;
}
