/* Our evaluator, and what is done with code that starts while it is out. */
#ifndef TDH_HOOK_EVALUATE_H
#define TDH_HOOK_EVALUATE_H

void tdh_evaluate_init(void);

#endif
