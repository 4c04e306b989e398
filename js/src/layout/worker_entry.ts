import { serve } from "./worker.ts";

serve(self as unknown as Parameters<typeof serve>[0]);
