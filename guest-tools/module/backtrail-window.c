// SPDX-License-Identifier: GPL-2.0
/*
 * backtrail-window: map the buffers of a branch trace
 *
 * A host with KVM can have the CPU store a record of each branch that this guest
 * takes.  The CPU stores by linear addresses, in whatever address space the guest
 * is in, so all of them have to map the host's buffers, the window.  KVM can write
 * that into the guest's page tables.  Where it must not, this module maps the
 * window, and KVM only verifies that it is there.
 *
 * The window is memory of QEMU, at physical addresses where the guest has nothing.
 * It has room for each vCPU that the machine can have, so there is nothing to be
 * done when one is plugged.  It is mapped where ioremap() maps: since Linux 5.9
 * all top-level page tables have the same entries for that, from the beginning.
 * With page-table isolation, those of user mode have none of them.
 *
 * QEMU and this module talk through a file of fw_cfg, in which QEMU says where the
 * window is, and the module where it has mapped it.  Once the module has taken that
 * back, no CPU stores there any more.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/acpi.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/qemu_fw_cfg.h>
#include <linux/reboot.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/suspend.h>
#include <linux/swab.h>

#include <asm/cpufeature.h>

/* Where fw_cfg has its interface for DMA on x86, see QEMU's specification */
#define FW_CFG_DMA_PORT		0x514
#define FW_CFG_FILE_NAME	"etc/branch-trace-window"

/* More files than fw_cfg has keys for */
#define FW_CFG_MAX_FILES	0x4000

/* More than all the vCPUs that QEMU supports need */
#define WINDOW_MAX_SIZE		SZ_4G

/* The file.  The guest writes @linear: where it has @gpa, or 0. */
struct window_file {
	__le64 linear;
	__le64 gpa;
	__le64 size;
};

/* What fw_cfg reads and writes; there before it is needed */
struct fw_cfg_buffer {
	struct fw_cfg_dma_access access;
	union {
		__be32 count;
		struct fw_cfg_file file;
		struct window_file window;
	};
};

static struct fw_cfg_buffer *buffer;

static DEFINE_MUTEX(window_lock);
static u16 window_key;
static phys_addr_t window_gpa;
static resource_size_t window_size;
static void *window;		/* NULL if it is not mapped */

static bool fw_cfg_has_dma(void)
{
	return inl(FW_CFG_DMA_PORT) ==
	       swab32(upper_32_bits(FW_CFG_DMA_SIGNATURE)) &&
	       inl(FW_CFG_DMA_PORT + 4) ==
	       swab32(lower_32_bits(FW_CFG_DMA_SIGNATURE));
}

static int fw_cfg_dma(u32 control, const void *data, size_t size)
{
	struct fw_cfg_dma_access *access = &buffer->access;
	u64 address = virt_to_phys(access);
	u32 status;

	access->control = cpu_to_be32(control);
	access->length = cpu_to_be32(size);
	access->address = cpu_to_be64(virt_to_phys((void *)data));

	/* All of it has to be there before the second half starts it. */
	virt_wmb();
	outl(swab32(upper_32_bits(address)), FW_CFG_DMA_PORT);
	outl(swab32(lower_32_bits(address)), FW_CFG_DMA_PORT + 4);

	for (;;) {
		status = be32_to_cpu(READ_ONCE(access->control));
		/* What has been read is there only when this says so. */
		virt_rmb();
		if (!(status & ~FW_CFG_DMA_CTL_ERROR))
			break;
		cpu_relax();
	}

	return status ? -EIO : 0;
}

/* From the beginning of the item with this key */
static int fw_cfg_read(u16 key, void *data, size_t size)
{
	return fw_cfg_dma((u32)key << 16 | FW_CFG_DMA_CTL_SELECT |
			  FW_CFG_DMA_CTL_READ, data, size);
}

static int fw_cfg_find(u16 *key)
{
	u32 count, i;
	int err;

	err = fw_cfg_read(FW_CFG_FILE_DIR, &buffer->count,
			  sizeof(buffer->count));
	if (err)
		return err;

	count = min_t(u32, be32_to_cpu(buffer->count), FW_CFG_MAX_FILES);
	for (i = 0; i < count; i++) {
		err = fw_cfg_dma(FW_CFG_DMA_CTL_READ, &buffer->file,
				 sizeof(buffer->file));
		if (err)
			return err;
		if (!strncmp(buffer->file.name, FW_CFG_FILE_NAME,
			     sizeof(buffer->file.name)) &&
		    be32_to_cpu(buffer->file.size) ==
		    sizeof(struct window_file)) {
			*key = be16_to_cpu(buffer->file.select);
			return 0;
		}
	}

	return -ENODEV;
}

/*
 * Tell QEMU where the window is mapped, 0 for nowhere.  In the latter case no CPU
 * stores there any more when this returns 0.
 */
static int window_publish(u64 linear)
{
	int err;

	buffer->window.linear = cpu_to_le64(linear);
	err = fw_cfg_dma((u32)window_key << 16 | FW_CFG_DMA_CTL_SELECT |
			 FW_CFG_DMA_CTL_WRITE, &buffer->window.linear,
			 sizeof(buffer->window.linear));
	if (err)
		return err;

	/* QEMU does not keep what it does not accept. */
	err = fw_cfg_read(window_key, &buffer->window, sizeof(buffer->window));
	if (!err && le64_to_cpu(buffer->window.linear) != linear)
		err = -EINVAL;

	return err;
}

static int window_find(void)
{
	u64 gpa, size;
	int err;

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR) || !fw_cfg_has_dma())
		return -ENODEV;

	err = fw_cfg_find(&window_key);
	if (!err)
		err = fw_cfg_read(window_key, &buffer->window,
				  sizeof(buffer->window));
	if (err)
		return err;

	gpa = le64_to_cpu(buffer->window.gpa);
	size = le64_to_cpu(buffer->window.size);
	if (!size || size > WINDOW_MAX_SIZE || !PAGE_ALIGNED(gpa | size) ||
	    gpa + size < gpa)
		return -EINVAL;

	window_gpa = gpa;
	window_size = size;
	return 0;
}

static int window_map(void)
{
	int err;

	err = window_find();
	if (err) {
		pr_err("the host offers no window: that takes QEMU's -device branch-trace,kvm-guest-window=on\n");
		return err;
	}

	if (!request_mem_region(window_gpa, window_size, KBUILD_MODNAME)) {
		pr_err("something else has the physical addresses of the window\n");
		return -EBUSY;
	}

	window = memremap(window_gpa, window_size, MEMREMAP_WB);
	if (!window) {
		pr_err("the window cannot be mapped\n");
		release_mem_region(window_gpa, window_size);
		return -ENOMEM;
	}

	return 0;
}

static void window_unmap(void)
{
	/*
	 * If it is not certain that no CPU stores there any more, better lose
	 * these addresses than have records in memory of others.
	 */
	if (window_publish(0))
		pr_err("the host does not give the window up, so it stays mapped\n");
	else
		memunmap(window);

	release_mem_region(window_gpa, window_size);
	window = NULL;
}

/*
 * Whoever uses fw_cfg holds ACPI's global lock: the kernel's driver, and methods
 * of the firmware.
 */
static bool fw_cfg_lock(u32 *handle)
{
	return acpi_disabled ||
	       ACPI_SUCCESS(acpi_acquire_global_lock(ACPI_WAIT_FOREVER, handle));
}

static void fw_cfg_unlock(u32 handle)
{
	if (!acpi_disabled)
		acpi_release_global_lock(handle);
}

static int window_open(void)
{
	u32 handle = 0;
	int err;

	mutex_lock(&window_lock);
	if (!fw_cfg_lock(&handle)) {
		pr_err("ACPI's global lock cannot be had\n");
		err = -EBUSY;
		goto out;
	}

	err = window ? 0 : window_map();
	if (!err) {
		err = window_publish((uintptr_t)window);
		if (err) {
			pr_err("the host does not accept where the window is mapped\n");
			window_unmap();
		}
	}
	fw_cfg_unlock(handle);
out:
	mutex_unlock(&window_lock);

	return err;
}

static void window_close(void)
{
	u32 handle = 0;
	bool locked;

	mutex_lock(&window_lock);
	if (window) {
		/* If need be without: a store to the file is one access. */
		locked = fw_cfg_lock(&handle);
		window_unmap();
		if (locked)
			fw_cfg_unlock(handle);
	}
	mutex_unlock(&window_lock);
}

/*
 * When the machine wakes up, QEMU has forgotten where the window is mapped; and if
 * it wakes up from a disk, it may be another QEMU, whose window is elsewhere.
 */
static int window_sleeps(struct notifier_block *nb, unsigned long event,
			 void *unused)
{
	switch (event) {
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
	case PM_SUSPEND_PREPARE:
		window_close();
		break;
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
	case PM_POST_SUSPEND:
		window_open();
		break;
	}

	return NOTIFY_DONE;
}

/* Another kernel may follow without a reset, by kexec. */
static int window_reboots(struct notifier_block *nb, unsigned long event,
			  void *unused)
{
	window_close();

	return NOTIFY_DONE;
}

static struct notifier_block window_pm = { .notifier_call = window_sleeps };
static struct notifier_block window_reboot = { .notifier_call = window_reboots };

static int __init window_init(void)
{
	int err;

	if (boot_cpu_has(X86_FEATURE_PTI)) {
		pr_err("page-table isolation hides the window from user mode: boot with pti=off, or let KVM write to the page tables\n");
		return -EOPNOTSUPP;
	}

	/* Not in the module's memory, which is not contiguous */
	buffer = kzalloc(sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;

	err = window_open();
	if (err)
		goto no_window;

	err = register_pm_notifier(&window_pm);
	if (err)
		goto no_pm;

	err = register_reboot_notifier(&window_reboot);
	if (err)
		goto no_reboot;

	pr_info("the host can trace this guest\n");
	return 0;

no_reboot:
	unregister_pm_notifier(&window_pm);
no_pm:
	window_close();
no_window:
	kfree(buffer);

	return err;
}

static void __exit window_exit(void)
{
	unregister_reboot_notifier(&window_reboot);
	unregister_pm_notifier(&window_pm);
	window_close();
	kfree(buffer);
}

module_init(window_init);
module_exit(window_exit);

MODULE_DESCRIPTION("Maps the buffers of a branch trace for a host that must not");
MODULE_AUTHOR("Backtrail developers");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");
