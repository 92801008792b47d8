// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel module that leaves marks and prints what they are
 */

#include <linux/module.h>

#include "backtrail-mark.h"

static int __init marks_init(void)
{
	static const u64 values[] = { 0, 1, 2, 0xdeadbeef, 1ULL << 63, ~0ULL };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(values); i++) {
		BACKTRAIL_MARK("module value", values[i]);
		pr_info("BT: mark %llu module value\n", values[i]);
	}
	return 0;
}

static void __exit marks_exit(void)
{
	BACKTRAIL_MARK("module exit");
	pr_info("BT: mark - module exit\n");
}

module_init(marks_init);
module_exit(marks_exit);
MODULE_DESCRIPTION("leaves marks and prints what they are");
MODULE_LICENSE("GPL");
